"""Commands on this machine: confined, in a folder of their own, each as one process group.

The order of things, and what holds on every path out of it (done, failed, too slow, cancelled):

1. A fresh, empty folder is made. It is where the command works and all that it may write to.
2. The keeper of the sandbox starts the command (`coatcheck.sandbox`). Stdout and stderr are read to
   their ends, also past what is kept and however slow the listener is, so that no full pipe ever
   stops the command.
3. When the time is up, or this call is cancelled, the keeper is told to end. It passes SIGTERM on,
   kills what is left after a grace, and then ends itself, which closes the pipes.
4. The folder is removed when no process is left that could write to it.
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
from coatcheck.surfaces.tasks.runners.cleanup import to_the_end
from coatcheck.surfaces.tasks.runners.folder import Folder
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

logger = logging.getLogger("coatcheck.tasks")

# How much longer than its grace the keeper may take to end everybody.
_PATIENCE_S = 5.0
_NO_SANDBOX = 125
_WHY_NO_SANDBOX = "sandbox: the sandbox could not be created"
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
        """Take what commands may use and reach; `limits.seconds` is for those that do not say.

        `folders` is where their folders are made: the system's place for such, unless named.
        """
        self._limits = limits or SandboxLimits()
        self._read = read
        self._network = network
        self._folders = folders
        self._backend = backend
        self._clock = clock or SystemClock()

    async def run(self, command: Command, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a command here and say how it went; raises RunnerError."""
        folder = Folder(self._folders)
        try:
            return await self._run_in(folder.path, command, on_output)
        finally:
            await to_the_end(asyncio.to_thread(_remove, folder))

    async def _run_in(
        self, folder: Path, command: Command, on_output: OnOutput | None
    ) -> CommandResult:
        seconds = command.seconds or self._limits.seconds
        try:
            # The first call looks which sandbox there is.
            confined = await asyncio.to_thread(
                confine,
                command.argv,
                access=SandboxAccess(read=self._read, write=(folder,), network=self._network),
                # The keeper's own clock is the net, should nobody be left to tell it.
                limits=replace(self._limits, seconds=seconds + _PATIENCE_S),
                environment=command.environment,
                temporary=True,
                backend=self._backend,
            )
        except ConfigurationError as error:
            raise SandboxFailed(str(error)) from error
        started_at = self._clock.now()
        process = await _started(confined)
        stdout, stderr = CapturedOutput(STDOUT_BYTES), CapturedOutput(STDERR_BYTES)
        timed_out = await _followed(process, stdout, stderr, OutputRelay(on_output), seconds)
        exit_code, said = process.returncode or 0, stderr.text()
        if exit_code == _NO_SANDBOX and said.startswith(_WHY_NO_SANDBOX):
            raise SandboxFailed(said.removeprefix("sandbox: ").strip())
        return CommandResult(
            TIMED_OUT if timed_out else exit_code if exit_code >= 0 else 128 - exit_code,
            stdout.text(),
            said,
            started_at,
            self._clock.now(),
            timed_out,
            tuple(name for name, one in (("stdout", stdout), ("stderr", stderr)) if one.truncated),
        )


def _remove(folder: Folder) -> None:
    try:
        folder.remove()
    except OSError as error:
        logger.error(
            "the folder of a command could not be removed",
            extra={"folder": folder.path.name, "error": error.strerror},
        )


async def _started(confined: ConfinedCommand) -> Process:
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
        await to_the_end(_end_at_once(starting))
        raise


async def _end_at_once(starting: Awaitable[Process]) -> None:
    with contextlib.suppress(OSError):
        process = await starting
        process.terminate()
        await process.wait()


async def _followed(
    process: Process,
    stdout: CapturedOutput,
    stderr: CapturedOutput,
    telling: OutputRelay,
    seconds: float,
) -> bool:
    """Read all that the command says until it has ended; return whether its time ran out."""
    reading = asyncio.ensure_future(_read(process, stdout, stderr, telling))
    telling_them = asyncio.ensure_future(telling.run())
    try:
        await asyncio.wait(
            [reading, telling_them], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION
        )
        if telling_them.done():
            telling_them.result()
        if timed_out := not reading.done():
            await _end(process, reading)
        await telling_them
        return timed_out
    finally:
        telling_them.cancel()
        if not reading.done():
            await to_the_end(_end(process, reading))


async def _read(
    process: Process, stdout: CapturedOutput, stderr: CapturedOutput, telling: OutputRelay
) -> None:
    async def drain(
        stream: asyncio.StreamReader | None, captured: CapturedOutput, tell: bool
    ) -> None:
        while stream is not None and (data := await stream.read(_CHUNK)):
            kept = captured.add(data)
            if tell:
                telling.add(kept)

    try:
        await asyncio.gather(
            drain(process.stdout, stdout, tell=True), drain(process.stderr, stderr, tell=False)
        )
        await process.wait()
    finally:
        telling.end()


async def _end(process: Process, reading: asyncio.Future[None]) -> None:
    """End the command and whoever it has started; when this returns, they are gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        await asyncio.wait([reading], timeout=GRACE_S + _PATIENCE_S)
        if reading.done():
            return
    reading.cancel()
