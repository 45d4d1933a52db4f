"""One handler process, from the worker's side. Everything here runs on the pool's loop.

A thread waits for the process to end and does not reap it. Until it is reaped, its pid belongs to
the process and its group, which can be killed without hitting another process. All its output is
read before it counts as ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any, Generic, Protocol, TypeVar, cast

from coatcheck.model.job import Claim
from coatcheck.model.kind import Kind
from coatcheck.settings import Settings
from coatcheck.worker.processes.confined import Workspace, confinement_fields, environment_of
from coatcheck.worker.processes.orphans import OrphanGuard
from coatcheck.worker.processes.wire import (
    Splitter,
    WireMessage,
    claim_fields,
    frame,
    hello_fields,
)

log = logging.getLogger(__name__)

# How long a process may take to stop.
STOP_S = 2.0
# How long a process may take to stop a step that exceeded its limit, before it is killed.
LIMIT_MARGIN_S = 1.0
# How long to read after its end; another process may hold the socket open.
LAST_READ_S = 1.0
# Artifacts up to this size are held in memory.
SMALL_FILE = 1 << 20

_MODULE = "coatcheck.worker.processes"
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}


T = TypeVar("T")  # the attempt that a process runs


class Listener(Protocol[T]):
    """Receives the messages of a process, and its end."""

    def on_message(self, process: Process[T], message: WireMessage) -> None:
        """Handle a message."""
        ...

    def on_ended(self, process: Process[T]) -> None:
        """Handle the end of a process, after all its messages."""
        ...


class Process(asyncio.Protocol, Generic[T]):
    """A process: starting until it reports ready, then idle or busy with one attempt."""

    def __init__(
        self,
        listener: Listener[T],
        guard: OrphanGuard,
        kinds: Sequence[Kind],
        settings: Settings,
        workspace: Workspace | None = None,
    ) -> None:
        """Start a process, confined to its workspace if it has one."""
        self._listener = listener
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._exited = False
        self._ended = False
        self.ready = False
        self.retired = False
        self.workspace = workspace
        self.tenant: str | None = None  # whose jobs a confined process runs; None: not decided yet
        self.idle_since = 0.0  # on the loop's clock
        self.start_error = ""
        self.attempt: T | None = None
        self.number = 0  # of the attempt
        self.started_jobs = 0  # how many it has started
        self._files: dict[int, IO[bytes]] = {}  # received parts of files, by request id
        self._limits: dict[int, asyncio.TimerHandle] = {}  # of running steps, by their id
        # the step it was killed for, and the step's limit
        self.overdue: tuple[str, float] | None = None
        self._socket, theirs = socket.socketpair()
        with theirs:
            fileno = theirs.fileno()
            try:
                # All other descriptors are closed in the child, and with them the locks they hold.
                self._popen = subprocess.Popen(  # noqa: S603 - our own module
                    # -P: import nothing from the current directory, which the process may write to.
                    [sys.executable, *(["-P"] if workspace else []), "-m", _MODULE, str(fileno)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(fileno,),
                    start_new_session=True,
                    env=environment_of(kinds, workspace, os.environ) if workspace else None,
                    cwd=workspace.scratch if workspace else None,
                )
            except OSError:
                self._socket.close()
                raise
        self._guard.watch(self.pid)
        confined = confinement_fields(kinds, workspace) if workspace else None
        self.send(hello_fields(kinds, settings, confined))
        self._connecting = self._loop.create_task(self._connect())
        threading.Thread(target=self._wait, name=f"coatcheck-wait-{self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def confined(self) -> bool:
        """Whether the process is confined to a workspace."""
        return self.workspace is not None

    @property
    def starting(self) -> bool:
        """Whether the process is not ready yet, and still expected to be."""
        return not (self.ready or self.retired or self._exited)

    @property
    def idle(self) -> bool:
        """Whether the process can be assigned a job."""
        return self.ready and self.attempt is None and not self.retired and not self._exited

    def may_run(self, claim: Claim) -> bool:
        """Return whether the process may run this job: a confined one has at most one tenant."""
        return self.workspace is None or self.tenant in (None, claim.lease.tenant)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a message without waiting. A process that has ended receives nothing."""
        data = frame(header, body)
        if self._transport is None:
            self._unsent.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def assign(self, attempt: T, claim: Claim) -> None:
        """Have the process run an attempt."""
        self.attempt = attempt
        if self.workspace is not None:
            assert self.tenant in (None, claim.lease.tenant), "a process never serves two tenants"
            self.tenant = claim.lease.tenant
        self.number += 1
        self._drop_files()  # incomplete files of the previous attempt
        header = {"type": "job", "number": self.number, "claim": claim_fields(claim)}
        self.send(header, claim.input.encode())

    def add_chunk(self, request_id: int, chunk: bytes) -> None:
        """Add a chunk to a file: in memory while it is small, then on disk."""
        if request_id not in self._files:
            self._files[request_id] = tempfile.SpooledTemporaryFile(SMALL_FILE)  # noqa: SIM115 - closed by who takes it
        self._files[request_id].write(chunk)

    def take_file(self, request_id: int) -> IO[bytes]:
        """Return a file that was received. The caller closes it."""
        file = self._files.pop(request_id, None) or io.BytesIO()
        file.seek(0)
        return file

    def _drop_files(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def limit(self, number: int, limit: dict[str, Any] | None) -> None:
        """Kill the process if a step exceeds its limit; None: the step has ended.

        The process stops the step itself if it can.
        """
        if (timer := self._limits.pop(number, None)) is not None:
            timer.cancel()
        if limit is not None:
            step, seconds = str(limit["step"]), float(limit["seconds"])
            wait = seconds + LIMIT_MARGIN_S
            self._limits[number] = self._loop.call_later(wait, self._kill_overdue, step, seconds)

    def lift_limits(self) -> None:
        """Remove the limits of all steps."""
        for number in list(self._limits):
            self.limit(number, None)

    def _kill_overdue(self, step: str, seconds: float) -> None:
        self.overdue = (step, seconds)
        self.kill()

    def retire(self) -> None:
        """Stop the process. It gets no more jobs."""
        self.retired = True
        self.send({"type": "stop"})
        self._loop.call_later(STOP_S, self.kill)

    def kill(self) -> None:
        """Kill the process and everything in its process group."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def describe_exit(self) -> str:
        """Describe how the process ended, for people."""
        code = self._popen.returncode or 0
        if code >= 0:
            return f"exited with status {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        if -code in _CRASHES:
            return f"crashed ({name})"
        if -code == signal.SIGKILL:
            return "was killed (SIGKILL), by a user or because the machine ran out of memory"
        return f"was terminated by {name}"

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the messages that waited for the connection."""
        # uvloop's transport does not inherit from it
        self._transport = cast("asyncio.Transport", transport)
        if self._ended:
            self._transport.abort()
            return
        for data in self._unsent:
            self._transport.write(data)
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Dispatch messages. Kill a process that sends an invalid one."""
        if self._ended:
            return
        try:
            for message in self._splitter.feed(data):
                self._listener.on_message(self, message)
        except (ValueError, KeyError, TypeError) as error:
            fields = {"child_pid": self.pid}
            log.error("invalid message from process: killed", exc_info=error, extra=fields)
            self.kill()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - theirs
        """Kill the process: it has closed its socket, so it is dead or useless."""
        self.kill()
        if self._exited:
            self._end()

    # --- ending

    async def _connect(self) -> None:
        await self._loop.create_unix_connection(lambda: self, sock=self._socket)

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # it was reaped already
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the pool has closed
            self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        self.kill()  # the programs it left behind
        self._guard.forget(self.pid)
        self._popen.wait()
        self._exited = True
        if self._transport is None or self._transport.is_closing():
            self._end()
        else:
            self._loop.call_later(LAST_READ_S, self._end)

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._drop_files()
            self.lift_limits()
            if self.workspace is not None:
                threading.Thread(target=self.workspace.remove, daemon=True).start()
            if self._transport is not None:
                self._transport.abort()
            self._listener.on_ended(self)
