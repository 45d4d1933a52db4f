"""Submitting and polling over a real connection: what is sent, and what is not waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
import uvicorn

from coatcheck.http.app import create_http_app
from coatcheck.http.protocol.timeouts import TimeoutProtocol
from coatcheck.surfaces.graphs import empty_body
from coatcheck.surfaces.graphs.surface import GraphSurface

from .conftest import Graphs, Serve, until
from .zips import zipped

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *headers: str, body: bytes = b"", key: str = "k") -> None:
        lines = (
            *("POST /v1/graphs/call HTTP/1.1", "Host: localhost", f"Idempotency-Key: {key}"),
            *("Content-Type: application/zip", *headers),
        )
        self.writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, body

    async def has_ended(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read(1) == b""


@contextlib.asynccontextmanager
async def connected(graphs: Graphs) -> AsyncIterator[Connection]:
    app = create_http_app(graphs.engine, surfaces=[GraphSurface({})])
    config = uvicorn.Config(app, port=0, http=TimeoutProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        server.should_exit = True
        await running


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield


async def test_who_asks_first_sends_an_archive_once(serve: Serve) -> None:
    async with serve(works=False) as graphs, connected(graphs) as here:
        archive = zipped()
        asks = ("Expect: 100-continue", f"Content-Length: {len(archive)}")
        await here.send(*asks)
        assert (await here.answer())[0] == 100  # now send it
        here.writer.write(archive)
        assert (await here.answer())[0] == 202
        await here.send(*asks)
        status, headers, _ = await here.answer()
        assert (status, headers["idempotency-replayed"]) == (202, "true")  # nobody wants it
        assert headers["connection"] == "close"
        assert await here.has_ended()


async def test_a_small_body_passes_and_the_connection_stays(serve: Serve) -> None:
    async with serve(works=False) as graphs, connected(graphs) as here:
        archive = zipped()
        for _ in range(3):
            await here.send(f"Content-Length: {len(archive)}", body=archive)
            status, headers, _ = await here.answer()
            assert (status, "connection" in headers) == (202, False)


async def test_an_empty_body_keeps_the_connection(serve: Serve) -> None:
    async with serve(works=False) as graphs, connected(graphs) as here:
        await graphs.post("call", zipped())
        for length in ("Content-Length: 0", "Accept: */*", "Transfer-Encoding: chunked"):
            await here.send(length, body=b"0\r\n\r\n" if "chunked" in length else b"")
            status, headers, _ = await here.answer()
            assert (status, "connection" in headers) == (202, False)


async def test_a_body_that_is_too_long_to_wait_for(serve: Serve) -> None:
    async with serve(works=False) as graphs, connected(graphs) as here:
        await graphs.post("call", zipped())
        await here.send(f"Content-Length: {empty_body.MOST_BYTES + 1}", body=b"x" * 1000)
        status, headers, _ = await here.answer()
        assert (status, headers["connection"]) == (202, "close")
        assert await here.has_ended()


async def test_one_without_a_length_is_cut_off(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(empty_body, "MOST_BYTES", 100_000)
    async with serve(works=False) as graphs, connected(graphs) as here:
        await graphs.post("call", zipped())
        await here.send(
            "Transfer-Encoding: chunked", body=b"%x\r\n%b\r\n" % (200_000, bytes(200_000))
        )
        status, headers, _ = await here.answer()
        assert (status, headers["connection"]) == (202, "close")
        assert await here.has_ended()


async def test_one_that_does_not_come_is_not_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(empty_body, "LONGEST_S", 0.01)
    async with serve(works=False) as graphs, connected(graphs) as here:
        await graphs.post("call", zipped())
        await here.send("Content-Length: 1000", body=b"x")
        status, headers, _ = await here.answer()
        assert (status, headers["connection"]) == (202, "close")


async def test_who_goes_away_in_the_middle_leaves_nothing(serve: Serve) -> None:  # G25, G29
    async with serve(works=False) as graphs, connected(graphs) as here:
        await here.send("Content-Length: 2000000", body=bytes(1_500_000))
        await until(lambda: bool(graphs.blobs()))
        here.writer.close()
        await until(lambda: not graphs.blobs())
        assert (await graphs.post("call")).status_code == 404
