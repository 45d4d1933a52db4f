"""Faults around a call: slow callers, missing folders, full disks, forged inputs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import BlobStoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.relay import socket_folder
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.upstream import UpstreamRequest, UpstreamResponse
from coatcheck.store.base import JobFilter

from .conftest import Serve
from .relay_surface import KIND, RelaySurface
from .upstreams import Got, says, service

pytestmark = pytest.mark.anyio

MEGABYTE = b"x" * 1_000_000


async def connected(url: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Make a call with a very small read buffer."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=4096)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return reader, writer


async def test_slow_caller_slows_the_upstream(serve: Serve) -> None:
    sent = 0
    held_up = asyncio.Event()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(100):
            writer.write(MEGABYTE)
            try:
                async with asyncio.timeout(0.5):
                    await writer.drain()
            except TimeoutError:
                held_up.set()
                await writer.drain()
            sent += 1

    async with service(script) as up, serve(RelaySurface(lambda: up.url)) as running:
        reader, writer = await connected(running.url, "/up/x")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(held_up.wait(), 60)
        assert sent < 50, "data that nobody reads must not be read ahead"
        received = 0
        while piece := await reader.read(1 << 20):  # now it continues to the end
            received += len(piece)
        assert received == 100_000_000
        writer.close()


async def test_stalled_caller_is_dropped_and_the_job_continues(serve: Serve) -> None:
    asked = asyncio.Event()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        asked.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n")
        for _ in range(30):
            writer.write(MEGABYTE)
            await writer.drain()

    async with service(script) as up, serve(RelaySurface(lambda: up.url, stall_s=0.2)) as running:
        _, writer = await connected(running.url, "/up/x")
        await asyncio.wait_for(asked.wait(), 30)
        [job] = await running.engine.list_jobs(JobFilter(DEFAULT_TENANT))
        job = await running.engine.wait(job.id, 60)
        assert (job.state, job.artifacts[0].size) == (State.SUCCEEDED, 30_000_000)
        writer.transport.abort()


async def test_without_a_socket_the_complete_response_is_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_folder, "PARENTS", ())
    async with (
        service(says(body=b"complete")) as up,
        serve(RelaySurface(lambda: up.url)) as running,
    ):
        answer = await running.http.post("/up/x")
        assert (answer.status_code, answer.content) == (200, b"complete")


async def test_concurrent_first_callers_all_get_a_stream(serve: Serve) -> None:
    go_on = asyncio.Event()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await writer.drain()
        await go_on.wait()
        writer.write(b"0\r\n\r\n")

    async with service(script) as up, serve(RelaySurface(lambda: up.url)) as running:

        async def first_chunk() -> bytes:
            async with running.http.stream("GET", "/up/x") as answer:
                return await anext(answer.aiter_bytes())

        assert await asyncio.gather(*(first_chunk() for _ in range(5))) == [b"one"] * 5
        go_on.set()


async def test_disconnect_before_the_response_cancels_the_job(serve: Serve) -> None:
    asked = asyncio.Event()

    async def script(_got: Got, _writer: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    surface = RelaySurface(lambda: up.url, on_hangup="cancel")
    async with service(script) as up, serve(surface) as running:
        _, writer = await connected(running.url, "/up/x")
        await asyncio.wait_for(asked.wait(), 30)
        writer.transport.abort()
        [job] = await running.engine.list_jobs(JobFilter(DEFAULT_TENANT))
        assert (await running.engine.wait(job.id, 30)).state is State.CANCELLED
        await asyncio.wait_for(up.ended.wait(), 30)  # the upstream's connection is closed


async def test_call_is_not_repeated_if_its_response_cannot_be_stored(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Any:
        raise BlobStoreUnavailable("the disk is full")

    async with service(says(body=MEGABYTE)) as up, serve(RelaySurface(lambda: up.url)) as running:
        monkeypatch.setattr(running.engine.payload_store, "save_artifact", away)
        answer = await running.http.post("/up/x", headers={"Prefer": "respond-async"})
        job = await running.engine.wait(answer.json()["job"], 30)
        assert (job.state, job.error and job.error.code) == (State.FAILED, "not-kept")
        assert len(up.got) == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"path": "no/slash"},
        {"path": "/a b"},
        {"path": "/a\r\nX: 1"},
        {"method": "GET /x HTTP/1.1\r\n"},
        {"headers": [["x-a", "1\r\nX-Evil: 1"]]},
        {"headers": [["x-a: 1\r\nX-Evil", "1"]]},
        {"headers": [["x-a", "\u20ac"]]},
        {"path": "/up/#"},
        {"path": "/up/x?a#b"},
        {"idempotency_key": "a\r\nX-Evil: 1"},
        {"unknown": 1},
    ],
)
async def test_forged_call_is_rejected(serve: Serve, forged: dict[str, Any]) -> None:
    async with serve(RelaySurface(lambda: "http://127.0.0.1:1"), works=False) as running:
        call = {"method": "GET", "path": "/up/x", **forged}
        answer = await running.http.post("/v1/jobs", json={"kind": KIND, "input": call})
        assert answer.status_code == 422, answer.text


async def test_forged_framing_headers_are_not_sent(serve: Serve) -> None:
    async with service(says()) as up, serve(RelaySurface(lambda: up.url)) as running:
        headers = [
            *(["content-length", "99"], ["transfer-encoding", "chunked"], ["host", "evil.example"]),
            *(["connection", "x-gone"], ["x-gone", "1"], ["x-kept", "1"]),
        ]
        call = {"method": "POST", "path": "/up/x", "headers": headers}
        made = (await running.http.post("/v1/jobs", json={"kind": KIND, "input": call})).json()
        job = await running.engine.wait(made["id"], 30)
        assert job.state is State.SUCCEEDED
        [got] = up.got
        assert (got.header("content-length"), got.header("transfer-encoding")) == ("0", None)
        assert got.header("host") == up.url.removeprefix("http://")
        assert (got.header("x-gone"), got.header("x-kept")) == (None, "1")


@pytest.mark.parametrize("sealed", ["relay:bm90aGluZw==", "relay2:bm90aGluZw==", "nothing"])
async def test_undecryptable_credentials_fail_the_job(serve: Serve, sealed: str) -> None:
    async with service(says()) as up, serve(RelaySurface(lambda: up.url)) as running:
        call = json.dumps({"method": "GET", "path": "/up/x", "credentials": sealed})
        asked = Submission(KIND, call, surface=RelaySurface.name, trusted=True)
        made = await running.engine.submit(asked)
        job = await running.engine.wait(made.id, 30)
        assert job.error is not None
        assert (job.error.code, up.got) == ("credentials-unreadable", [])


class Own:
    """An upstream that is not a service: it implements the protocol only."""

    @asynccontextmanager
    async def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        got = b"" if body is None else b"".join([piece async for piece in body])

        async def chunks() -> AsyncIterator[bytes]:
            yield json.dumps([call.method, call.path, got.decode()]).encode()

        yield UpstreamResponse(ResponseHead(200, [("content-type", "application/json")]), chunks())


async def test_custom_upstream_works(serve: Serve) -> None:
    surface = RelaySurface(lambda: "own")
    surface.services["own"] = Own()
    async with serve(surface) as running:
        answer = await running.http.post("/up/x?y=1", content=b"z")
        assert answer.json() == ["POST", "/up/x?y=1", "z"]
