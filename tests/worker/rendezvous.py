"""A port at which a test meets handlers that run in other processes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from typing import NamedTuple

PATIENCE_S = 60.0


class HandlerArrival(NamedTuple):
    """A handler that waits until the test lets it continue."""

    pid: int
    words: str
    writer: asyncio.StreamWriter

    def let_go(self) -> None:
        self.writer.write(b".")
        self.writer.close()


class Rendezvous:
    """A port at which handlers arrive."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[HandlerArrival] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._arrive, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def arrival(self) -> HandlerArrival:
        """Wait for the next handler."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._arrived.get()

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        pid, _, words = (await reader.readline()).decode().strip().partition(" ")
        await self._arrived.put(HandlerArrival(int(pid), words, writer))


class ProcessHandle:
    """Another process, whose end can be waited for."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)

    def kill(self, number: int = signal.SIGKILL) -> None:
        signal.pidfd_send_signal(self._descriptor, number)

    async def end(self) -> None:
        """Wait until it has ended."""
        await asyncio.to_thread(self.wait)

    def wait(self) -> None:
        """Wait until it has ended, in a thread."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), "it is still alive"
        os.close(self._descriptor)
