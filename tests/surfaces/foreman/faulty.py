"""A faulty upstream: it has one model, and a test decides how it responds.

It sends bytes, breaks the connection, stalls, or stops listening altogether.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

TINY = json.dumps({"models": [{"name": "tiny:latest", "model": "tiny:latest"}]}).encode()


class Cut(NamedTuple):
    """The connection is broken after these bytes."""

    content: bytes


class Stall(NamedTuple):
    """Nothing is sent after these bytes while the connection is open."""

    content: bytes = b""


Answer = Callable[[dict[str, Any]], bytes | Cut | Stall]


def answering(status: int, content: bytes, media_type: str = "application/json") -> bytes:
    """Return a complete response."""
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {media_type}\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def streaming(*lines: dict[str, Any], media_type: str = "application/x-ndjson") -> bytes:
    """Return the start of a chunked response."""
    head = f"HTTP/1.1 200 X\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [json.dumps(line).encode() + b"\n" for line in lines]
    return head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)


class Faulty:
    """Records its calls, and when a stalled connection was closed."""

    def __init__(self, answer: Answer, probes: bytes = TINY) -> None:
        self.answer = answer
        self.probes = probes
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.called = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.open = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before."""
        bound = socket.create_server(("127.0.0.1", self.port))
        self.port = bound.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=bound)

    async def stop(self) -> None:
        """Refuse connections, and break the open ones."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    def _probe(self, _path: str) -> bytes:
        return self.probes

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.open += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    continue
        finally:
            self.open -= 1
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        path = head[0].split()[1]
        if path in ("/api/tags", "/api/ps"):
            writer.write(answering(200, self._probe(path)))
            return True
        body = json.loads(content)
        self.calls.append((path, body))
        self.called.set()
        wanted = self.answer(body)
        writer.write(wanted if isinstance(wanted, bytes) else wanted.content)
        await writer.drain()
        if isinstance(wanted, Cut):
            writer.transport.close()
            return False
        if isinstance(wanted, Stall):
            await reader.read()
            self.hung_up.set()
            return False
        return True


@contextlib.asynccontextmanager
async def faulty(answer: Answer, probes: bytes = TINY) -> AsyncIterator[Faulty]:
    server = Faulty(answer, probes)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
