"""A receiver on this machine: notes what it is told, and answers what a test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from standardwebhooks import Webhook

Answer = Callable[["Call"], int | None]


class Call(NamedTuple):
    """One request: its path, its headers in lower case, its body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> dict[str, object]:
        """Return the message, if it is signed with this secret; raises otherwise."""
        return dict(Webhook(secret).verify(self.body, self.headers))


class Receiver:
    """`answer` says which status to answer with; None: not before `let_go`, then 204."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self.called = asyncio.Event()
        self.let_go = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                pairs = (line.split(": ", 1) for line in head[1:] if line)
                headers = {name.lower(): value for name, value in pairs}
                body = await reader.readexactly(int(headers["content-length"]))
                call = Call(head[0].split()[1], headers, body)
                self.calls.append(call)
                self.called.set()
                status = self.answer(call)
                if status is None:
                    await self._be_silent(reader)
                    status = 204
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()

    async def _be_silent(self, reader: asyncio.StreamReader) -> None:
        """Wait until we may answer, or nobody listens any more."""
        waits = [asyncio.create_task(self.let_go.wait()), asyncio.create_task(reader.read())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


@contextlib.asynccontextmanager
async def receiving(answer: Answer = lambda _: 204) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
