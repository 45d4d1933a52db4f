"""`Retry-After`: from how long jobs of the kind have been taking and what is queued before them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.metrics import RUN_TIME
from coatcheck.engine.submit.estimates import LONGEST_S, REFRESH_S, SHORTEST_S
from coatcheck.errors import StoreUnavailable
from coatcheck.model.worker import WorkerInfo
from tests.engine.changing import turns
from tests.http.arrange import NOW, StoppedClock, Submit

pytestmark = pytest.mark.anyio


async def observe(engine: Engine, kind: str, *seconds: float) -> None:
    """Count runs of a kind, as workers anywhere do."""
    await engine.store.maintenance.increment_counters(
        {
            f'{RUN_TIME}_ms{{kind="{kind}"}}': round(sum(seconds) * 1000),
            f'{RUN_TIME}_count{{kind="{kind}"}}': len(seconds),
        }
    )


async def let_look() -> None:
    """Return when nobody reads what estimates are made from."""
    async with asyncio.timeout(20):
        while any(task.get_name() == "coatcheck-estimates" for task in asyncio.all_tasks()):
            await turns(1)


async def ask(http: httpx2.AsyncClient, clock: StoppedClock, job: dict[str, Any]) -> int:
    """Return what a job is answered with once the server has looked anew."""
    await let_look()  # a look that the clock jumps under seems to take long
    clock.milliseconds += round(REFRESH_S * 1000)
    await http.get(f"/v1/jobs/{job['id']}")
    await let_look()
    answer = await http.get(f"/v1/jobs/{job['id']}")
    return int(answer.headers["retry-after"])


async def test_a_kind_that_takes_longer_is_asked_about_later(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock
) -> None:
    fast, slow = await submit("echo", queue="a"), await submit("nothing", queue="b")
    await observe(engine, "echo", 2.0, 2.0)
    await observe(engine, "nothing", 40.0)

    assert await ask(http, clock, fast) == 4, "one before it, itself being counted, and its own"
    assert await ask(http, clock, slow) == 80


async def test_it_follows_what_was_observed_last(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock
) -> None:
    job = await submit("echo")
    await observe(engine, "echo", *[2.0] * 100)
    before = await ask(http, clock, job)
    await observe(engine, "echo", *[60.0] * 3)
    after = await ask(http, clock, job)
    await observe(engine, "echo", *[60.0] * 3)

    assert before < after < await ask(http, clock, job)


async def test_a_deeper_queue_is_asked_about_later_and_more_workers_sooner(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock
) -> None:
    job = await submit("echo")
    await observe(engine, "echo", 1.0)
    alone = await ask(http, clock, job)
    await http.post("/v1/batches", json={"jobs": [{"kind": "echo"}] * 99})
    crowded = await ask(http, clock, job)
    await engine.store.workers.register_worker(WorkerInfo("w", "here", 1, ("echo",), 50, NOW))
    helped = await ask(http, clock, job)

    assert (alone, crowded, helped) == (2, 101, 3)


async def test_a_job_for_later_is_asked_about_when_it_is_due(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock
) -> None:
    job = await submit("echo", run_at="2033-05-18T03:34:20Z")
    first = await ask(http, clock, job)
    clock.milliseconds += 20_000

    assert first - 22 == await ask(http, clock, job)


async def test_a_running_job_is_asked_about_when_it_should_be_done(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock, claimer: str
) -> None:
    job = await submit("echo")
    await observe(engine, "echo", 30.0)
    await engine.claim(claimer, ["echo"], 1)

    assert await ask(http, clock, job) == 28
    assert await ask(http, clock, job) == 26
    clock.milliseconds += 96_000
    assert await ask(http, clock, job) == 26, "longer than usual: a quarter of its age"


async def test_it_stays_within_bounds(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock
) -> None:
    fast, slow = await submit("echo"), await submit("nothing", queue="b")
    await observe(engine, "echo", 0.001)
    await observe(engine, "nothing", 36_000.0)

    assert await ask(http, clock, fast) == SHORTEST_S
    assert await ask(http, clock, slow) == LONGEST_S


async def test_the_store_is_read_at_most_every_few_seconds_and_never_waited_for(
    http: httpx2.AsyncClient,
    submit: Submit,
    engine: Engine,
    clock: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = await submit("echo")
    await ask(http, clock, job)
    reads = 0
    never = asyncio.Event()

    async def counters() -> dict[str, int]:
        nonlocal reads
        reads += 1
        await never.wait()
        return {}

    monkeypatch.setattr(engine.store.maintenance, "read_counters", counters)
    clock.milliseconds += round(REFRESH_S * 1000)
    for _ in range(20):
        assert (await http.get(f"/v1/jobs/{job['id']}")).headers["retry-after"]
    assert reads == 1
    never.set()


async def test_a_store_that_cannot_be_read_leaves_the_last_answer(
    http: httpx2.AsyncClient,
    submit: Submit,
    engine: Engine,
    clock: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = await submit("echo")
    await observe(engine, "echo", 10.0)
    before = await ask(http, clock, job)

    async def away() -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(engine.store.maintenance, "read_counters", away)
    assert await ask(http, clock, job) == before


async def test_every_answer_about_a_job_under_way_carries_it_and_no_other(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    submitted = await http.post("/v1/jobs", json={"kind": "echo"})
    path = submitted.headers["location"]
    for answer in (submitted, await http.get(path), await http.get(f"{path}/result")):
        assert int(answer.headers["retry-after"]) >= SHORTEST_S
    for answer in (await http.post(f"{path}/cancel"), await http.get(path)):
        assert "retry-after" not in answer.headers
