"""One process that runs handlers, as its worker sees it. Everything here is on the pool's loop.

Its end is noticed by a thread that waits for it and does not reap it: as long as it is not reaped,
its number belongs to it and its process group, which can be killed without hitting anybody else.
What it had written by then is read to the end before it counts as gone.
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

# A process told to stop has this long.
STOP_S = 2.0
# A process has this long to stop a step that is over its limit before it is killed.
LIMIT_MARGIN_S = 1.0
# How long to read on after its end; another may hold the socket open.
LAST_WORDS_S = 1.0
# A file that a handler leaves behind is kept in memory up to here.
SMALL_FILE = 1 << 20

_MODULE = "coatcheck.worker.processes"
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}


T = TypeVar("T")  # what a process is given to do


class Listener(Protocol[T]):
    """Who hears what a process says, and of its end."""

    def heard(self, process: Process[T], message: WireMessage) -> None:
        """A message came."""
        ...

    def gone(self, process: Process[T]) -> None:
        """It has ended, and all it said was heard."""
        ...


class Process(asyncio.Protocol, Generic[T]):
    """A process: starting until it says that it is ready, then idle or busy with one attempt."""

    def __init__(
        self,
        listener: Listener[T],
        guard: OrphanGuard,
        kinds: Sequence[Kind],
        settings: Settings,
        workspace: Workspace | None = None,
    ) -> None:
        """Start it: confined to a workspace if it has one."""
        self._listener = listener
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._exited = False
        self._gone = False
        self.ready = False
        self.retired = False
        self.workspace = workspace
        self.tenant: str | None = None  # whose jobs it runs, if it is confined; None: nobody's yet
        self.idle_since = 0.0  # on the loop's clock
        self.why_broken = ""
        self.attempt: T | None = None
        self.number = 0  # of the attempt
        self.begun = 0  # how many it has begun
        self._files: dict[int, IO[bytes]] = {}  # what has arrived of files, by the id of the ask
        self._limits: dict[int, asyncio.TimerHandle] = {}  # of steps that run, by their id
        self.overdue: tuple[str, float] | None = None  # the step it was killed for, and its limit
        self._socket, theirs = socket.socketpair()
        with theirs:
            fileno = theirs.fileno()
            try:
                # Descriptors but these four are closed in it, and so are the locks they hold.
                self._popen = subprocess.Popen(  # noqa: S603 - our own module
                    # -P: nothing is imported from the current directory, which may be its own.
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
        """Its process id."""
        return self._popen.pid

    @property
    def confined(self) -> bool:
        """Whether it is confined to a workspace."""
        return self.workspace is not None

    @property
    def starting(self) -> bool:
        """Whether it will be ready, but is not yet."""
        return not (self.ready or self.retired or self._exited)

    @property
    def idle(self) -> bool:
        """Whether it can be given a job."""
        return self.ready and self.attempt is None and not self.retired and not self._exited

    def may_run(self, claim: Claim) -> bool:
        """Whether it can be given this job: a confined one has at most one tenant."""
        return self.workspace is None or self.tenant in (None, claim.lease.tenant)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a message, without ever waiting; one that has ended hears nothing."""
        data = frame(header, body)
        if self._transport is None:
            self._unsent.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def give(self, attempt: T, claim: Claim) -> None:
        """Have it run an attempt."""
        self.attempt = attempt
        if self.workspace is not None:
            assert self.tenant in (None, claim.lease.tenant), "a process never serves two tenants"
            self.tenant = claim.lease.tenant
        self.number += 1
        self._drop_files()  # of which the attempt before has sent a part
        header = {"type": "job", "number": self.number, "claim": claim_fields(claim)}
        self.send(header, claim.input.encode())

    def gather(self, ask: int, piece: bytes) -> None:
        """Take the next piece of a file: in memory while it is small, then on the disk."""
        if ask not in self._files:
            self._files[ask] = tempfile.SpooledTemporaryFile(SMALL_FILE)  # noqa: SIM115 - closed by who takes it
        self._files[ask].write(piece)

    def take_file(self, ask: int) -> IO[bytes]:
        """Return a file that has arrived; whoever takes it closes it."""
        file = self._files.pop(ask, None) or io.BytesIO()
        file.seek(0)
        return file

    def _drop_files(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def limit(self, number: int, limit: dict[str, Any] | None) -> None:
        """Kill it if a step does not end within its limit; None: the step has ended. A process
        stops the step itself if it can.
        """
        if (timer := self._limits.pop(number, None)) is not None:
            timer.cancel()
        if limit is not None:
            step, seconds = str(limit["step"]), float(limit["seconds"])
            wait = seconds + LIMIT_MARGIN_S
            self._limits[number] = self._loop.call_later(wait, self._kill_for, step, seconds)

    def lift_limits(self) -> None:
        """All steps have ended."""
        for number in list(self._limits):
            self.limit(number, None)

    def _kill_for(self, step: str, seconds: float) -> None:
        self.overdue = (step, seconds)
        self.kill()

    def retire(self) -> None:
        """Let it end; it gets no more jobs."""
        self.retired = True
        self.send({"type": "stop"})
        self._loop.call_later(STOP_S, self.kill)

    def kill(self) -> None:
        """End it and everything in its process group."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def how_it_ended(self) -> str:
        """Say how it ended, for people."""
        code = self._popen.returncode or 0
        if code >= 0:
            return f"ended by itself with exit status {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        if -code in _CRASHES:
            return f"crashed ({name})"
        if -code == signal.SIGKILL:
            return "was killed (SIGKILL), by somebody or because the machine ran out of memory"
        return f"was ended by {name}"

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what was waiting for this."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's only behaves like one
        if self._gone:
            self._transport.abort()
            return
        for data in self._unsent:
            self._transport.write(data)
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Pass on what it says; one that talks nonsense is ended."""
        if self._gone:
            return
        try:
            for message in self._splitter.feed(data):
                self._listener.heard(self, message)
        except (ValueError, KeyError, TypeError) as error:
            fields = {"child_pid": self.pid}
            log.error(
                "what a process said cannot be read; it is ended", exc_info=error, extra=fields
            )
            self.kill()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - theirs
        """It has closed its end: it is dead, or nothing more can be made of it."""
        self.kill()
        if self._exited:
            self._be_gone()

    # --- its end

    async def _connect(self) -> None:
        await self._loop.create_unix_connection(lambda: self, sock=self._socket)

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # somebody has reaped it before us
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the pool is gone, too
            self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        self.kill()  # what it left behind
        self._guard.forget(self.pid)
        self._popen.wait()
        self._exited = True
        if self._transport is None or self._transport.is_closing():
            self._be_gone()
        else:
            self._loop.call_later(LAST_WORDS_S, self._be_gone)

    def _be_gone(self) -> None:
        if not self._gone:
            self._gone = True
            self._drop_files()
            self.lift_limits()
            if self.workspace is not None:
                threading.Thread(target=self.workspace.remove, daemon=True).start()
            if self._transport is not None:
                self._transport.abort()
            self._listener.gone(self)
