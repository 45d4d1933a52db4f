"""Upstream services that respond with the bytes a test gives them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Got:
    """A request as received."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for known, value in self.headers if known == name]
        assert len(found) < 2, f"{name} came twice: {found}"
        return found[0] if found else None


Script = Callable[[Got, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Service:
    """A server that follows a script and records its requests."""

    script: Script
    url: str = ""
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # a connection has ended

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (got := await read_request(reader)) is not None:
                self.got.append(got)
                await self._follow(got, reader, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended.set()
            writer.close()

    async def _follow(
        self, got: Got, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # Until the script is done, or the caller disconnects.
        following = asyncio.ensure_future(self.script(got, writer))
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        if not following.done():
            following.cancel()
            raise ConnectionResetError
        await following


async def read_request(reader: asyncio.StreamReader) -> Got | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip()))
    named = dict(headers)
    body = b""
    if named.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        body = await reader.readexactly(int(named.get("content-length", 0)))
    return Got(method, path, headers, body)


def says(status: str = "200 OK", body: bytes = b"hello", *headers: str) -> Script:
    """Return a script that sends the same response to every request."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if got.method != "HEAD":
            writer.write(body)

    return script


def in_turn(*scripts: Script) -> Script:
    """Return a script that uses the next of these for each request, and then the last."""
    left = list(scripts)

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(got, writer)

    return script


@contextlib.asynccontextmanager
async def service(script: Script) -> AsyncIterator[Service]:
    """Run a service within the block."""
    running = Service(script)
    server = await asyncio.start_server(running.answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    running.url = f"http://{host}:{port}"
    try:
        yield running
    finally:
        server.close()
