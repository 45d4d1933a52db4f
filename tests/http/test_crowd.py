"""A thousand long-polls and a thousand streams at once: one read of the store serves them all."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.engine.engine import Engine
from coatcheck.http.request import query
from coatcheck.model.job import Progress
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Report, Settlement
from tests.engine.changing import turns
from tests.http import streams
from tests.http.arrange import Submit
from tests.http.streams import Stream

# On a busy machine a crowd takes its time, and nobody in it may have waited long enough before.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

CROWD = 1_000
PATIENCE_S = 300.0
# A change may be looked at once more than it needs: it came while a look was under way.
FEW = 6
# Far more than a waiter needs, far less than a copy of anything large.
BYTES_EACH = 50_000


@pytest.fixture
def reads(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each way of reading the store was used."""
    counts: Counter[str] = Counter()

    def count(name: str) -> None:
        whole = getattr(engine.store.jobs, name)

        async def counted(*arguments: Any) -> Any:
            counts[name] += 1
            return await whole(*arguments)

        monkeypatch.setattr(engine.store.jobs, name, counted)

    for name in ("get", "get_many", "list_events"):
        count(name)
    return counts


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_WAIT_S", 3_600)
    monkeypatch.setattr(streams, "PATIENCE_S", PATIENCE_S)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def all_wait(engine: Engine, count: int) -> None:
    """Return when so many wait for a change."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(len, engine._waiters._waiters.values())) < count or engine._waiters._unread:
            await turns(1)


@pytest.mark.usefixtures("traced")
async def test_a_change_is_read_once_for_all_who_wait_for_it(
    app: Starlette,
    http: httpx2.AsyncClient,
    engine: Engine,
    submit: Submit,
    claimer: str,
    reads: Counter[str],
) -> None:
    job = await submit("echo")
    tasks = len(asyncio.all_tasks())
    memory, _ = tracemalloc.get_traced_memory()
    path = f"/v1/jobs/{job['id']}?wait=3600"
    polls = [asyncio.create_task(http.get(path)) for _ in range(CROWD)]
    streams = [Stream(app, job["id"]) for _ in range(CROWD)]
    await asyncio.gather(*(stream.__aenter__() for stream in streams))
    told = await asyncio.gather(*(stream.next_told() for stream in streams))
    assert {event.id for event in told if event} == {"1"}
    await all_wait(engine, 2 * CROWD)
    assert tracemalloc.get_traced_memory()[1] - memory < 2 * CROWD * BYTES_EACH

    reads.clear()
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    told = await asyncio.gather(*(stream.next_told() for stream in streams))
    assert [event.id for event in told if event] == ["2"] * CROWD
    await all_wait(engine, 2 * CROWD)
    assert max(reads.values()) <= FEW, reads
    assert reads["get"] == 0

    reads.clear()
    await engine.report(claim.lease, Report(progress=Progress(1, 2)))
    told = await asyncio.gather(*(stream.next_told() for stream in streams))
    assert [event.id for event in told if event] == ["3"] * CROWD
    await all_wait(engine, 2 * CROWD)
    assert max(reads.values()) <= FEW, reads

    reads.clear()
    await engine.settle([Settlement(claim.lease, Succeeded('"done"'))])
    answers = await asyncio.gather(*polls)
    ends = await asyncio.gather(*(stream.rest() for stream in streams))
    assert [answer.json()["result"] for answer in answers] == ["done"] * CROWD
    assert all([event.name for event in end] == ["state", "end"] for end in ends)
    assert max(reads.values()) <= FEW, reads
    assert reads["get"] == 0

    async with asyncio.timeout(PATIENCE_S):
        while len(asyncio.all_tasks()) > tasks:
            await turns(1)
    assert engine._waiters._waiters == {}
    assert engine._events._reads == {}


async def test_those_who_wait_for_different_jobs_are_read_together(
    http: httpx2.AsyncClient, engine: Engine, reads: Counter[str]
) -> None:
    body = {"jobs": [{"kind": "echo"}] * CROWD}
    jobs = (await http.post("/v1/batches", json=body)).json()["jobs"]
    paths = [f"{job['links']['self']}?wait=3600" for job in jobs]
    waiting = [asyncio.create_task(http.get(path)) for path in paths]
    await all_wait(engine, CROWD)

    reads.clear()
    await engine.cancel(jobs[0]["id"])  # reads it twice, itself
    assert (await waiting[0]).json()["state"] == "cancelled"
    await all_wait(engine, CROWD - 1)
    assert reads["get_many"] <= FEW
    assert reads["get"] == 2

    engine.release_waiters()
    answers = await asyncio.gather(*waiting)
    assert {answer.status_code for answer in answers} == {200}


async def test_a_heartbeat_reads_nothing(
    app: Starlette,
    submit: Submit,
    reads: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coatcheck.http.jobs.events.HEARTBEAT_S", 0.002)
    job = await submit("echo")
    async with Stream(app, job["id"]) as stream:
        await stream.next_told()
        comment = await stream.next()
        assert comment is not None
        assert comment.name == "comment"
        reads.clear()
        for _ in range(5):
            await stream.next()
    assert reads["get"] == 0
