"""A launcher: a warm process without threads that has imported everything, and forks for each
order.

A worker then costs a fork instead of an interpreter start, so killing it is cheap. The launcher
ends when the test process closes its socket or dies, and all its children die with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from .subject import FOR_GOOD, GO, Order, be, read_order

ROOT = Path(__file__).parents[2]
LARGEST_ORDER = 65_536
PATIENCE_S = 60.0
_PR_SET_PDEATHSIG = 1


class Subject:
    """A forked process, seen from the test that strikes it."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._control = control
        control.setblocking(False)
        self._heard = b""
        self._ended = False
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._hear)
        control.send(GO)

    async def says(self, timeout: float = PATIENCE_S) -> str:
        """Wait for the next line: `ready`, or the point where it stands still; empty at its end."""
        async with asyncio.timeout(timeout):
            while b"\n" not in self._heard:
                if self._ended:
                    return ""
                self._arrived.clear()
                await self._arrived.wait()
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def _hear(self) -> None:
        # Apart from those who wait: one who gives up at this moment must not lose what arrived.
        try:
            more = self._control.recv(4096)
        except ConnectionError:
            more = b""
        if not more:
            self._ended = True
            self._loop.remove_reader(self._control)
        self._heard += more
        self._arrived.set()

    def go(self, *, for_good: bool = False) -> None:
        """Let it go on from a point, to stop no more or at the next."""
        with contextlib.suppress(OSError):
            self._control.send(FOR_GOOD if for_good else GO)

    def signal(self, number: int) -> None:
        """Send a signal; a process that is gone does not mind."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    async def gone(self) -> None:
        """Wait until the process has ended, and with it all its locks."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)

    async def kill(self) -> None:
        """End it the hard way, and wait until it has."""
        self.signal(signal.SIGKILL)
        await self.gone()

    def close(self) -> None:
        """Let go of it; it has ended."""
        self._loop.remove_reader(self._control)
        self._control.close()
        os.close(self._pidfd)


class Launcher:
    """The test's side of a launcher process."""

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        self._process.wait(PATIENCE_S)

    def start(self, order: Order, listening: socket.socket | None = None) -> Subject:
        """Fork a process; it runs from the moment it is watched."""
        ours, theirs = socket.socketpair()
        with theirs:
            sent = [theirs] if listening is None else [theirs, listening]
            text = json.dumps(dataclasses.asdict(order)).encode()
            socket.send_fds(self._socket, [text], [each.fileno() for each in sent])
        pid = int(self._socket.recv(64))
        return Subject(pid, ours)


def launch(orders: socket.socket) -> None:
    """Fork for every order until there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to reap
    while True:
        text, descriptors, _, _ = socket.recv_fds(orders, LARGEST_ORDER, 2)
        if not text:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            _be_forked(read_order(text.decode()), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        orders.send(str(pid).encode())


def _be_forked(order: Order, descriptors: list[int]) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        said = os.open(f"{order.folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        control, *listening = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        be(order, control, listening[0] if listening else None)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may return into the launcher's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    launch(socket.socket(fileno=int(sys.argv[1])))
