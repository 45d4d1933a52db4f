"""Clients that owe us the rest of a request, over real sockets; time is told by the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from coatcheck.engine.engine import Engine
from coatcheck.http.protocol import timeouts
from coatcheck.http.protocol.strict import HEAD_BYTES
from coatcheck.http.protocol.timeouts import TimeoutProtocol
from tests.http.arrange import Submit

pytestmark = pytest.mark.anyio

HOST = b"Host: localhost\r\n"
PATIENCE_S = 60.0


class Served:
    """The application on a real port."""

    def __init__(self, app: Starlette, **options: int) -> None:
        protocol: Any = partial(TimeoutProtocol, **options)
        config = uvicorn.Config(
            app, port=0, http=protocol, lifespan="off", log_config=None, access_log=False
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = _no_signals  # type: ignore[method-assign]
        self._running: asyncio.Task[None]

    async def start(self) -> None:
        self._running = asyncio.create_task(self._server.serve())
        await _until(lambda: self._server.started)

    async def stop(self) -> None:
        self._server.should_exit = True
        await self._running

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        known = self.connections
        streams = await self.open()
        await _until(lambda: bool(self.connections - known))
        return streams

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and do not wait for the server to see it."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return await asyncio.open_connection("127.0.0.1", port)

    @property
    def connections(self) -> set[Any]:
        return set(self._server.server_state.connections)

    def silent_for(self, seconds: float) -> list[float]:
        """How long each connection would have been waited for, so much later."""
        now = asyncio.get_running_loop().time() + seconds
        return [connection.silent_for(now) for connection in self.connections]

    async def heard(self, condition: Callable[[Any], bool]) -> None:
        """Return once the one connection has taken in what was sent."""
        [connection] = self.connections
        await _until(lambda: condition(connection))

    def close_silent(self) -> asyncio.Task[None]:
        watched = self._server.server_state.connections
        return asyncio.create_task(timeouts.close_silent(watched, timeout_s=0.05))


def _no_signals() -> Any:
    return contextlib.nullcontext()


async def _until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds that has no signal of its own."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the server's state tells nobody when it changes
            await asyncio.sleep(0)


@pytest.fixture
async def served(app: Starlette, engine: Engine) -> AsyncIterator[Served]:
    served = Served(app)
    await served.start()
    yield served
    engine.release_waiters()  # else the server would wait for them
    await served.stop()


async def test_one_connection_too_many_is_refused_and_the_others_go_on(
    app: Starlette, engine: Engine
) -> None:
    served = Served(app, max_connections=2)
    await served.start()
    try:
        first, second = await served.connect(), await served.connect()
        reader, writer = await served.open()
        refused = await asyncio.wait_for(reader.read(), PATIENCE_S)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"urn:coatcheck:too-many-connections" in refused
        assert b"retry-after: 5\r\n" in refused
        writer.close()
        for reader, writer in (first, second):
            writer.write(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
            await reader.readuntil(b'{"status":"ok"}')
        second[1].close()
        await _until(lambda: len(served.connections) == 1)
        reader, writer = await served.connect()
        writer.write(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        await reader.readuntil(b'{"status":"ok"}')
        for _, each in (first, (reader, writer)):
            each.close()
    finally:
        engine.release_waiters()
        await served.stop()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /hea",
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        b"POST /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
        b'Content-Length: 40\r\n\r\n{"kind":',
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\nGET /healthz HTTP/1.1\r\nHost",
    ],
    ids=["nothing", "half a line", "half a head", "half a body", "half a second head"],
)
async def test_who_stops_in_the_middle_of_a_request_is_closed(served: Served, sent: bytes) -> None:
    reader, writer = await served.connect()
    writer.write(sent)
    closing = served.close_silent()

    await asyncio.wait_for(reader.read(), PATIENCE_S)  # until the other side has closed it

    closing.cancel()
    writer.close()


async def test_who_waits_for_us_is_not_closed(served: Served, submit: Submit) -> None:
    job = await submit("echo")
    _reader, writer = await served.connect()
    path = f"/v1/jobs/{job['id']}?wait=60".encode()
    writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    await served.heard(lambda connection: connection.cycle and not connection.cycle.more_body)
    assert served.silent_for(3_600) == [0.0]
    writer.close()


async def test_who_is_idle_between_requests_has_the_time_of_keep_alive(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    await reader.readuntil(b'{"status":"ok"}')
    await served.heard(lambda connection: connection.timeout_keep_alive_task is not None)
    assert served.silent_for(3_600) == [0.0]
    writer.close()


async def test_a_head_without_end_is_refused(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\n" + HOST)
    writer.write(b"X-Long: " + b"a" * (2 * HEAD_BYTES))
    with contextlib.suppress(ConnectionResetError):  # closed before all of it was sent
        await reader.read()
    await _until(lambda: not served.connections)
    writer.close()


@pytest.mark.parametrize("declared", [True, False], ids=["with its length", "in chunks"])
async def test_a_refusal_reaches_who_is_still_sending(served: Served, declared: bool) -> None:
    size = 6 * 1024 * 1024
    length = f"Content-Length: {size}" if declared else "Transfer-Encoding: chunked"
    for _ in range(10):
        reader, writer = await served.connect()
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n{length}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n")
        writer.write(b"" if declared else f"{size:x}\r\n".encode())
        writer.write(b"a" * size)
        answer = await reader.readuntil(b"\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        writer.close()
