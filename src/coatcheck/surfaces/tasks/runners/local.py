"""Run commands on this machine: sandboxed, in a folder of their own, each as one process group.

The order, and the invariants on every path out of it (success, failure, timeout, cancellation):

1. A fresh, empty folder is created. The command works there and may write nowhere else.
2. The sandbox's supervisor starts the command (`coatcheck.sandbox`). Stdout and stderr are read to
   their ends, even beyond what is captured and however slow the listener is, so that no full pipe
   ever blocks the command.
3. When the time is up, or this call is cancelled, the supervisor gets a signal. It passes SIGTERM
   on, kills the remaining processes after a grace period, and then exits, which closes the pipes.
4. The folder is deleted when no process is left that could write to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

from coatcheck.clock import Clock, SystemClock
from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import ConfinedCommand, SandboxAccess, SandboxBackend, SandboxLimits, confine
from coatcheck.sandbox.command import GRACE_S
from coatcheck.surfaces.tasks.runners.cleanup import finish_cleanup
from coatcheck.surfaces.tasks.runners.output import CapturedOutput, OutputRelay
from coatcheck.surfaces.tasks.runners.runner import (
    STDERR_BYTES,
    STDOUT_BYTES,
    TIMED_OUT,
    Command,
    CommandResult,
    OnOutput,
    SandboxFailed,
)
from coatcheck.surfaces.tasks.runners.scratch_folder import ScratchFolder

logger = logging.getLogger("coatcheck.tasks")

# How much longer than its grace period the supervisor may take to end all processes.
_PATIENCE_S = 5.0
_NO_SANDBOX = 125
_NO_SANDBOX_MESSAGE = "sandbox: the sandbox could not be created"
_CHUNK = 64 * 1024


class LocalRunner:
    """Runs commands in the sandbox of this machine."""

    def __init__(
        self,
        *,
        limits: SandboxLimits | None = None,
        read: tuple[Path, ...] = (),
        network: bool = False,
        folders: Path | None = None,
        backend: SandboxBackend | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set the limits and the access of commands; `limits.seconds` is their default time limit.

        `folders` is where their folders are created; the default is the system's temporary folder.
        """
        self._limits = limits or SandboxLimits()
        self._read = read
        self._network = network
        self._folders = folders
        self._backend = backend
        self._clock = clock or SystemClock()

    async def run(self, command: Command, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a command on this machine and return its outcome; raise RunnerError if it could not
        run.
        """
        folder = ScratchFolder(self._folders)
        try:
            return await self._run_in(folder.path, command, on_output)
        finally:
            await finish_cleanup(asyncio.to_thread(_remove, folder))

    async def _run_in(
        self, folder: Path, command: Command, on_output: OnOutput | None
    ) -> CommandResult:
        seconds = command.seconds or self._limits.seconds
        try:
            # The first call detects the sandbox, which blocks.
            confined = await asyncio.to_thread(
                confine,
                command.argv,
                access=SandboxAccess(read=self._read, write=(folder,), network=self._network),
                # The supervisor's own timeout is a safety net, in case this process dies.
                limits=replace(self._limits, seconds=seconds + _PATIENCE_S),
                environment=command.environment,
                temporary=True,
                backend=self._backend,
            )
        except ConfigurationError as error:
            raise SandboxFailed(str(error)) from error
        started_at = self._clock.now()
        process = await _start(confined)
        stdout, stderr = CapturedOutput(STDOUT_BYTES), CapturedOutput(STDERR_BYTES)
        timed_out = await _follow(process, stdout, stderr, OutputRelay(on_output), seconds)
        exit_code, errors = process.returncode or 0, stderr.text()
        if exit_code == _NO_SANDBOX and errors.startswith(_NO_SANDBOX_MESSAGE):
            raise SandboxFailed(errors.removeprefix("sandbox: ").strip())
        return CommandResult(
            TIMED_OUT if timed_out else exit_code if exit_code >= 0 else 128 - exit_code,
            stdout.text(),
            errors,
            started_at,
            self._clock.now(),
            timed_out,
            tuple(name for name, one in (("stdout", stdout), ("stderr", stderr)) if one.truncated),
        )


def _remove(folder: ScratchFolder) -> None:
    try:
        folder.remove()
    except OSError as error:
        logger.error(
            "scratch folder deletion failed",
            extra={"folder": folder.path.name, "error": error.strerror},
        )


async def _start(confined: ConfinedCommand) -> Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *confined.argv, **confined.options, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
    )
    try:
        return await asyncio.shield(starting)
    except OSError as error:
        raise SandboxFailed(f"no process could be started: {error.strerror}") from error
    except asyncio.CancelledError:
        await finish_cleanup(_end_on_start(starting))
        raise


async def _end_on_start(starting: Awaitable[Process]) -> None:
    with contextlib.suppress(OSError):
        process = await starting
        process.terminate()
        await process.wait()


async def _follow(
    process: Process,
    stdout: CapturedOutput,
    stderr: CapturedOutput,
    relay: OutputRelay,
    seconds: float,
) -> bool:
    """Read the command's output until it has ended; return whether its time ran out."""
    reading = asyncio.ensure_future(_read(process, stdout, stderr, relay))
    relaying = asyncio.ensure_future(relay.run())
    try:
        await asyncio.wait(
            [reading, relaying], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION
        )
        if relaying.done():
            relaying.result()
        if timed_out := not reading.done():
            await _end(process, reading)
        await relaying
        return timed_out
    finally:
        relaying.cancel()
        if not reading.done():
            await finish_cleanup(_end(process, reading))


async def _read(
    process: Process, stdout: CapturedOutput, stderr: CapturedOutput, relay: OutputRelay
) -> None:
    async def drain(
        stream: asyncio.StreamReader | None, captured: CapturedOutput, relayed: bool
    ) -> None:
        while stream is not None and (data := await stream.read(_CHUNK)):
            captured_part = captured.add(data)
            if relayed:
                relay.add(captured_part)

    try:
        await asyncio.gather(
            drain(process.stdout, stdout, relayed=True),
            drain(process.stderr, stderr, relayed=False),
        )
        await process.wait()
    finally:
        relay.end()


async def _end(process: Process, reading: asyncio.Future[None]) -> None:
    """End the command and all processes it has started; they are gone when this returns."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        await asyncio.wait([reading], timeout=GRACE_S + _PATIENCE_S)
        if reading.done():
            return
    reading.cancel()
