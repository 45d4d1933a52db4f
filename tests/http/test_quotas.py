"""Quotas: how much a tenant may have and hand in, and what it is told beyond that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.model.access import Quotas
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import JobFilter, Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import StoppedClock
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

JOB = {"kind": "echo", "input": "1234567"}  # nine bytes of JSON


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock, tmp_path: Path) -> Engine:
    blobs = Blobs(FileBucket(tmp_path / "blobs"))
    pepper = b"a pepper for tests"
    return Engine(store, declare_kinds(gate).kinds, clock, blobs=blobs, pepper=lambda: pepper)


@pytest.fixture
def app(engine: Engine) -> Starlette:
    return create_http_app(engine)


@pytest.fixture
def limited(engine: Engine, http: httpx2.AsyncClient) -> Any:
    """Give the caller's tenant quotas."""

    async def limited(**quotas: int) -> None:
        await engine.authenticator.put_tenant("acme", quotas=Quotas(**quotas))
        _, key = await engine.authenticator.create_key("acme", ["admin"])
        http.headers["X-Api-Key"] = key

    return limited


async def submit(http: httpx2.AsyncClient, **headers: str) -> httpx2.Response:
    return await http.post("/v1/jobs", json=JOB, headers=headers)


async def stored(engine: Engine) -> int:
    return len(await engine.list_jobs(JobFilter("acme", limit=1000)))


async def test_beyond_a_rate_a_submit_is_refused_until_there_is_room(
    engine: Engine, http: httpx2.AsyncClient, clock: StoppedClock, limited: Any
) -> None:
    await limited(submits_per_minute=3)
    for _ in range(3):
        assert (await submit(http)).status_code == 202

    refused = await submit(http)

    read_problem(refused, 429, "quota-exceeded")
    assert refused.headers["retry-after"] == "20"
    assert refused.headers["ratelimit-policy"] == '"submits_per_minute";q=3;w=60'
    assert refused.headers["ratelimit"] == '"submits_per_minute";r=0;t=20'
    assert await stored(engine) == 3
    clock.milliseconds += 60_001
    assert (await submit(http)).status_code == 202


async def test_a_crowd_gets_as_much_as_the_quota_and_no_more(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(jobs_waiting=10)
    answers = await asyncio.gather(*(submit(http) for _ in range(40)))
    assert sorted(answer.status_code for answer in answers) == [202] * 10 + [429] * 30
    assert await stored(engine) == 10


@pytest.mark.parametrize(
    ("quotas", "fits"),
    [
        ({"jobs_waiting": 2}, 2),
        ({"submits_per_minute": 2}, 2),
        ({"payload_bytes": 20}, 2),
        ({"stored_bytes": 20}, 2),
        ({"jobs_waiting": 0}, 0),
    ],
)
async def test_each_quota_is_kept(
    engine: Engine, http: httpx2.AsyncClient, limited: Any, quotas: dict[str, int], fits: int
) -> None:
    await limited(**quotas)
    answers = [(await submit(http)).status_code for _ in range(4)]
    assert answers == [202] * fits + [429] * (4 - fits)
    assert await stored(engine) == fits


async def test_while_enough_jobs_run_no_more_is_taken_in(
    engine: Engine, http: httpx2.AsyncClient, clock: StoppedClock, limited: Any, claimer: str
) -> None:
    await limited(jobs_running=1)
    assert (await submit(http)).status_code == 202
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    clock.milliseconds += 1_000

    read_problem(await submit(http), 429, "quota-exceeded")

    await engine.settle([Settlement(claim.lease, Succeeded("1"))])
    clock.milliseconds += 100  # nobody is refused by an old count
    assert (await submit(http)).status_code == 202


async def test_a_batch_fits_as_a_whole_or_not_at_all(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(jobs_waiting=5)
    refused = await http.post("/v1/batches", json={"jobs": [JOB] * 6})
    read_problem(refused, 429, "quota-exceeded")
    assert await stored(engine) == 0
    assert (await http.post("/v1/batches", json={"jobs": [JOB] * 5})).status_code == 202


async def test_what_was_refused_for_another_reason_takes_nothing(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(jobs_waiting=1)
    for _ in range(3):
        answer = await http.post("/v1/jobs", json={"kind": "total", "input": "wrong"})
        read_problem(answer, 422, "invalid-payload")
    assert (await submit(http)).status_code == 202


async def test_a_repeated_request_is_answered_also_beyond_the_quota(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(jobs_waiting=1)
    first = await submit(http, **{"Idempotency-Key": "a"})
    again = await submit(http, **{"Idempotency-Key": "a"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    read_problem(await submit(http, **{"Idempotency-Key": "b"}), 429, "quota-exceeded")


async def test_forks_and_triggers_count(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(jobs_waiting=1)
    source = (await submit(http)).json()["id"]
    await http.put("/v1/schedules/a", json={"kind": "echo", "every_s": 60})
    for answer in (
        await http.post(f"/v1/jobs/{source}/fork", json={"from_step": 0}),
        await http.post("/v1/schedules/a/trigger"),
    ):
        read_problem(answer, 429, "quota-exceeded")
    assert await stored(engine) == 1


async def test_a_quota_holds_from_the_moment_it_is_set(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(jobs_waiting=100)
    for _ in range(3):
        await submit(http)
    changed = await http.get("/v1/tenants/acme")
    assert changed.json()["quotas"]["jobs_waiting"] == 100
    await engine.authenticator.put_tenant("acme", quotas=Quotas(jobs_waiting=3))
    read_problem(await submit(http), 429, "quota-exceeded")


async def test_quotas_that_make_no_sense_are_refused(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    _, key = await engine.authenticator.create_key("default", ["admin"])
    http.headers["X-Api-Key"] = key
    for body in (
        {"quotas": {"jobs_waiting": -1}},
        {"quotas": {"jobs_waiting": "many"}},
        {"quotas": {"jobs": 1}},
        {"status": "asleep"},
        {"name": "x"},
    ):
        read_problem(await http.put("/v1/tenants/acme", json=body), 422, "invalid-payload")
    assert await engine.store.access.get_tenant("acme") is None
    own = await http.put("/v1/tenants/default", json={"status": "suspended"})
    read_problem(own, 422, "invalid-payload")


async def test_a_file_that_does_not_fit_is_refused_before_and_while_it_comes(
    engine: Engine, http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(stored_bytes=100)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 20

    assert (await http.post("/v1/uploads", content=b"x" * 60)).status_code == 201
    read_problem(await http.post("/v1/uploads", content=b"x" * 41), 429, "quota-exceeded")
    # Of this one nobody says beforehand how large it is.
    read_problem(await http.post("/v1/uploads", content=pieces()), 429, "quota-exceeded")
    kept = await engine.store.access.measure_load(
        "acme", Quotas(stored_bytes=100), engine.clock.now()
    )
    assert kept.stored_bytes == 60, "nothing is left of what was refused"
    assert (await http.post("/v1/uploads", content=b"x" * 40)).status_code == 201
    read_problem(await http.post("/v1/uploads", content=b""), 429, "quota-exceeded")


async def test_an_upload_that_is_repeated_needs_no_room(
    http: httpx2.AsyncClient, limited: Any
) -> None:
    await limited(stored_bytes=100)
    first, again = [
        await http.post("/v1/uploads", content=b"x" * 100, headers={"Idempotency-Key": "a"})
        for _ in range(2)
    ]
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
