"""What one tenant can hold open: slow bodies, uploads in flight, streams and waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.engine.open_requests import RequestLimits
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.app import create_http_app
from coatcheck.http.endpoint import Access, Endpoint
from coatcheck.http.jobs.handlers import submit_job
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import JSON, StoppedClock, connect
from tests.http.every_surface import whole_api
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

PEPPER = b"a pepper for tests"
Serve = Callable[[RequestLimits], Awaitable[tuple[Engine, httpx2.AsyncClient]]]


@pytest.fixture
async def serve(
    store: SQLiteStore, gate: Gate, clock: StoppedClock, tmp_path: Path
) -> AsyncIterator[Serve]:
    async with contextlib.AsyncExitStack() as stack:

        async def serve(limits: RequestLimits) -> tuple[Engine, httpx2.AsyncClient]:
            blobs = Blobs(FileBucket(tmp_path / "blobs"))
            stack.callback(blobs.close)
            kinds = declare_kinds(gate).kinds
            engine = Engine(store, kinds, clock, blobs=blobs, pepper=lambda: PEPPER, limits=limits)
            stack.callback(engine.release_waiters)
            http = await stack.enter_async_context(connect(create_http_app(engine)))
            return engine, http

        yield serve


async def key_for(engine: Engine, tenant: str) -> dict[str, str]:
    _, key = await engine.authenticator.create_key(tenant, ["admin"])
    return {"Authorization": f"Bearer {key}"}


class Trickle:
    """Bodies that send a byte, and the rest when they are let go."""

    def __init__(self) -> None:
        self._let_go = asyncio.Event()
        self._waiting = asyncio.Semaphore(0)

    async def body(self) -> AsyncIterator[bytes]:
        yield b"x"
        self._waiting.release()
        await self._let_go.wait()
        yield b"y"

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(30):
            for _ in range(count):
                await self._waiting.acquire()

    def let_go(self) -> None:
        self._let_go.set()


# --- a minimum rate


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches", "/v1/uploads"])
async def test_a_body_slower_than_the_minimum_rate_is_refused(serve: Serve, path: str) -> None:
    _, http = await serve(RequestLimits(body_min_rate=10**9, body_grace_s=0))

    answer = await http.post(path, content=Trickle().body(), headers=JSON)

    problem = read_problem(answer, 408, "timeout")
    assert "1,000,000,000 bytes a second" in problem["detail"]
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "limits",
    [
        RequestLimits(body_min_rate=10**9, body_grace_s=1000),
        RequestLimits(body_min_rate=0, body_grace_s=0),
    ],
    ids=["within the grace period", "no minimum"],
)
async def test_a_slow_body_is_taken_where_it_is_allowed(
    serve: Serve, limits: RequestLimits
) -> None:
    _, http = await serve(limits)
    trickle = Trickle()
    slow = asyncio.create_task(http.post("/v1/uploads", content=trickle.body()))
    await trickle.wait_for(1)

    trickle.let_go()

    assert (await slow).status_code == 201


# --- uploads in flight


async def test_a_tenant_has_a_bounded_number_of_uploads_in_flight(serve: Serve) -> None:
    engine, http = await serve(RequestLimits(uploads_per_tenant=3))
    acme, other = await key_for(engine, "acme"), await key_for(engine, "other")
    trickle = Trickle()
    slow = [
        asyncio.create_task(http.post("/v1/uploads", content=trickle.body(), headers=acme))
        for _ in range(3)
    ]
    await trickle.wait_for(3)

    refused = await http.post("/v1/uploads", content=b"file", headers=acme)
    read_problem(refused, 429, "too-many-open")
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["ratelimit-policy"] == '"open_uploads";q=3'
    assert refused.headers["connection"] == "close"
    another = await http.post("/v1/uploads", content=b"file", headers=other)
    assert another.status_code == 201

    trickle.let_go()
    assert [answer.status_code for answer in await asyncio.gather(*slow)] == [201] * 3
    again = await http.post("/v1/uploads", content=b"file", headers=acme)
    assert again.status_code == 201


async def test_an_upload_that_is_refused_or_breaks_off_is_not_counted_any_more(
    serve: Serve,
) -> None:
    _, http = await serve(RequestLimits(uploads_per_tenant=1, body_min_rate=10**9, body_grace_s=0))
    for _ in range(3):
        answer = await http.post("/v1/uploads", content=Trickle().body())
        assert answer.status_code == 408
    assert (await http.post("/v1/uploads", content=b"file")).status_code == 201


# --- streams and waits


async def test_a_tenant_has_a_bounded_number_of_waits_and_streams(serve: Serve) -> None:
    engine, http = await serve(RequestLimits(requests_per_tenant=3))
    acme, other = await key_for(engine, "acme"), await key_for(engine, "other")
    job = await engine.submit(Submission("echo", tenant="acme"))
    held = [
        asyncio.create_task(http.get(path, headers={**acme, **extra}))
        for path, extra in (
            (f"/v1/jobs/{job.id}?wait=60", {}),
            (f"/v1/jobs/{job.id}/result?wait=60", {}),
            (f"/v1/jobs/{job.id}/events", {"Accept": "text/event-stream"}),
        )
    ]
    async with asyncio.timeout(30):
        while engine.open_requests.count("acme") < 3:  # noqa: ASYNC110 - a count has no signal
            await asyncio.sleep(0)

    refused = await http.get(f"/v1/jobs/{job.id}?wait=60", headers=acme)
    read_problem(refused, 429, "too-many-open")
    assert int(refused.headers["retry-after"]) >= 1
    waits = {**acme, "Prefer": "wait=60"}
    read_problem(
        await http.post("/v1/jobs", json={"kind": "echo"}, headers=waits), 429, "too-many-open"
    )
    assert (await http.post("/v1/jobs", json={"kind": "echo"}, headers=acme)).status_code == 202
    assert (await http.get("/v1/jobs", headers=other)).status_code == 200

    engine.release_waiters()
    await asyncio.gather(*held)
    assert engine.open_requests.count("acme") == 0
    assert (await http.get(f"/v1/jobs/{job.id}", headers=acme)).status_code == 200


async def test_the_limit_holds_for_every_call_of_every_surface(tmp_path: Path) -> None:
    async with whole_api(tmp_path, tenant_requests=1) as api:
        acme, other = await api.key_for("acme"), await api.key_for("other")
        with api.engine.open_requests.hold("acme"):
            for endpoint in _with_key(api.endpoints):
                path = endpoint.path.replace("{", "").replace("}", "").replace(":path", "")
                refused = await api.http.request(endpoint.method, path, headers=acme)
                assert refused.status_code == 429, (endpoint.method, endpoint.path)
                assert "retry-after" in refused.headers
            assert (await api.http.get("/healthz")).status_code == 200
            assert (await api.http.get("/v1/jobs", headers=other)).status_code == 200


def _with_key(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Return the calls that need a key, but for plain submits: these hold nothing open."""
    return [
        each
        for each in endpoints
        if each.access is not Access.PUBLIC and each.handler is not submit_job
    ]
