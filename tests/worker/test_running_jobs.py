"""Running a job, from its submit to its outcome."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from pydantic import BaseModel

from coatcheck import App, Context, Fail, Retry
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.options import Limits
from coatcheck.model.state import Reason, State
from coatcheck.store.base import Store

from .conftest import SETTINGS, working
from .job_control import run

pytestmark = pytest.mark.anyio


async def test_an_async_handler_runs_and_its_result_is_stored(app: App, engine: Engine) -> None:
    @app.job
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    async with working(engine):
        job = await run(engine, "greet", "you")
    assert (job.state, job.result, job.attempt) == (State.SUCCEEDED, '"hello you"', 1)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.finished_at >= job.started_at >= job.created_at


async def test_a_def_handler_runs_in_a_thread(app: App, engine: Engine) -> None:
    @app.job
    def where(ctx: Context) -> str:
        return threading.current_thread().name

    async with working(engine):
        job = await run(engine, "where")
    assert job.result is not None
    assert "coatcheck-thread" in job.result


async def test_inputs_and_results_may_be_any_pydantic_type(app: App, engine: Engine) -> None:
    class Order(BaseModel):
        items: list[str]
        total: float = 0.0

    def price(ctx: Context, order: Order) -> Order:
        return order.model_copy(update={"total": 1.5 * len(order.items)})

    price.__annotations__ = {"ctx": Context, "order": Order, "return": Order}
    app.job(price)
    async with working(engine):
        job = await run(engine, "price", {"items": ["hat", "coat"]})
    assert json.loads(job.result or "") == {"items": ["hat", "coat"], "total": 3.0}


async def test_progress_phase_and_log_are_stored_with_the_job(app: App, engine: Engine) -> None:
    @app.job
    async def talk(ctx: Context) -> None:
        await ctx.phase("loading")
        await ctx.log("opened", pages=3)
        for page in range(1000):
            await ctx.progress(page + 1, 1000, f"page {page + 1}")

    @app.job
    def talk_plainly(ctx: Context) -> None:
        ctx.log("opened", pages=3)
        for page in range(1000):
            ctx.progress(page + 1, 1000, f"page {page + 1}")

    async with working(engine):
        for kind in ("talk", "talk_plainly"):
            job = await run(engine, kind)
            assert job.progress is not None
            assert (job.progress.done, job.progress.message) == (1000, "page 1000")
            events = await engine.events(job.id)
            logged = [json.loads(event.data) for event in events if event.type == "log"]
            assert logged == [{"message": "opened", "pages": 3}]
            told = [event for event in events if event.type == "progress"]
            assert 1 <= len(told) < 100, "a thousand calls should cost few writes"


async def test_every_phase_is_logged(app: App, engine: Engine) -> None:
    @app.job
    async def hurry(ctx: Context) -> None:
        for name in ("loading", "working", "closing"):
            await ctx.phase(name)

    async with working(engine):
        job = await run(engine, "hurry")
    events = await engine.events(job.id)
    told = [json.loads(event.data)["phase"] for event in events if event.type == "progress"]
    assert told == ["loading", "working", "closing"]


async def test_retry_is_repeated_until_attempts_are_used_up(app: App, engine: Engine) -> None:
    seen = []

    @app.job(retries=2)
    async def never(ctx: Context) -> None:
        seen.append(ctx.attempt)
        raise Retry("not yet", after=0)

    async with working(engine):
        job = await run(engine, "never")
    assert seen == [1, 2, 3]
    assert (job.state, job.reason, job.attempt) == (State.FAILED, Reason.ERROR, 3)
    assert job.error is not None
    assert (job.error.code, job.error.message) == ("retry", "not yet")


async def test_a_retried_job_can_succeed(app: App, engine: Engine) -> None:
    @app.job
    def third_time(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise Retry(after=0.001)
        return ctx.attempt

    async with working(engine):
        job = await run(engine, "third_time")
    assert (job.state, job.result, job.attempt) == (State.SUCCEEDED, "3", 3)


async def test_an_uncounted_retry_uses_no_attempt(app: App, engine: Engine) -> None:  # F05
    seen = []

    @app.job(retries=0)
    async def far_away(ctx: Context) -> str:
        seen.append(ctx.attempt)
        if len(seen) < 5:
            raise Retry("nobody is there", after=0, counts=False)
        return "there"

    async with working(engine):
        job = await run(engine, "far_away")
    assert seen == [1, 1, 1, 1, 1]
    assert (job.state, job.attempt, job.fence) == (State.SUCCEEDED, 1, 5)


async def test_fail_fails_the_job_at_once(app: App, engine: Engine) -> None:
    @app.job(retries=5)
    async def hopeless(ctx: Context) -> None:
        raise Fail("no-such-page", "the page does not exist")

    async with working(engine):
        job = await run(engine, "hopeless")
    assert (job.state, job.attempt) == (State.FAILED, 1)
    assert job.error is not None
    assert (job.error.code, job.error.message) == ("no-such-page", "the page does not exist")


@pytest.mark.parametrize("failure", [ValueError, SystemExit, KeyboardInterrupt, MemoryError])
async def test_any_exception_fails_only_its_own_job(
    app: App, engine: Engine, failure: type[BaseException]
) -> None:
    @app.job(retries=0)
    async def breaks(ctx: Context) -> None:
        raise failure("broken")

    @app.job(retries=0)
    def breaks_in_a_thread(ctx: Context) -> None:
        raise failure("broken")

    @app.job
    async def works(ctx: Context) -> int:
        return 1

    async with working(engine):
        for kind in ("breaks", "breaks_in_a_thread"):
            job = await run(engine, kind)
            assert (job.state, job.reason) == (State.FAILED, Reason.ERROR)
            assert job.error is not None
            assert job.error.message == f"{failure.__name__}: broken"
            assert "Traceback" in (job.error.detail or "")
        assert (await run(engine, "works")).result == "1"


async def test_a_result_that_is_not_json_fails_the_job_without_a_retry(
    app: App, engine: Engine
) -> None:
    runs = []

    @app.job
    async def odd(ctx: Context) -> object:
        runs.append(1)
        return object()

    async with working(engine):
        job = await run(engine, "odd")
    assert job.error is not None
    assert (job.state, job.error.code, runs) == (State.FAILED, "invalid-result", [1])


async def test_an_input_that_no_longer_matches_the_code_fails_the_job(
    app: App, engine: Engine
) -> None:
    @app.job
    async def double(ctx: Context, n: int) -> int:
        return 2 * n

    old = App()

    @old.job(name="double")
    async def double_text(ctx: Context, n: str) -> str:
        return n + n

    job = await Engine(engine.store, old.kinds).submit(Submission("double", '"ab"'))
    async with working(engine):
        ended = await engine.wait(job.id, 30)
    assert ended.error is not None
    assert (ended.state, ended.error.code, ended.attempt) == (State.FAILED, "invalid-payload", 1)


async def test_a_worker_claims_only_kinds_it_has(app: App, engine: Engine) -> None:
    @app.job
    async def mine(ctx: Context) -> None: ...

    wider = App()

    @wider.job(name="mine")
    async def also_mine(ctx: Context) -> None: ...

    @wider.job
    async def theirs(ctx: Context) -> None: ...

    other = Engine(engine.store, wider.kinds)
    foreign = await other.submit(Submission("theirs"))
    async with working(engine):
        await run(engine, "mine")
        assert (await engine.get(foreign.id)).state is State.QUEUED
        async with working(other):
            assert (await engine.wait(foreign.id, 30)).state is State.SUCCEEDED


async def test_a_worker_never_runs_more_jobs_than_it_has_slots(app: App, engine: Engine) -> None:
    running, most = 0, 0

    @app.job
    async def count(ctx: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    jobs = (await engine.submit_batch([Submission("count")] * 50)).jobs
    async with working(engine, replace(SETTINGS, concurrency=3)):
        for job in jobs:
            assert (await engine.wait(job.id, 30)).state is State.SUCCEEDED
    assert most == 3


async def test_higher_priority_runs_first_and_a_paused_queue_not_at_all(
    app: App, engine: Engine
) -> None:
    order: list[str] = []

    @app.job
    async def note(ctx: Context, name: str) -> None:
        order.append(name)

    await engine.pause_queue("later")
    held = await engine.submit(Submission("note", '"held"', queue="later", priority=9))
    waiting = [
        await engine.submit(Submission("note", json.dumps(name), priority=priority))
        for name, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 5))
    ]
    async with working(engine, replace(SETTINGS, concurrency=1)):
        for job in waiting:
            await engine.wait(job.id, 30)
        assert order == ["high", "first", "second", "low"]
        await engine.resume_queue("later")
        assert (await engine.wait(held.id, 30)).state is State.SUCCEEDED


async def test_age_boosts_are_evaluated_at_every_claim(app: App, store: Store) -> None:
    """A boosted job starts before older ones."""
    order: list[str] = []
    loaded: dict[str, int] = {}

    @app.job(limits=Limits(concurrency=1, age_boosts=lambda: loaded))
    async def ask(ctx: Context, model: str) -> None:
        order.append(model)
        loaded.clear()
        loaded[model] = 60_000

    engine = Engine(store, app.kinds)
    models = ("small", "large", "small", "large", "small")
    jobs = [await engine.submit(Submission("ask", json.dumps(m), queue=m)) for m in models]
    async with working(engine):
        for job in jobs:
            await engine.wait(job.id, 30)
    assert order == ["small", "small", "small", "large", "large"]


async def test_a_delayed_job_starts_when_it_is_due(app: App, engine: Engine) -> None:
    clock = SystemClock()
    started = []

    @app.job
    async def note(ctx: Context) -> None:
        started.append(clock.now())

    async with working(engine):
        due = clock.now() + 150
        job = await engine.submit(Submission("note", run_at=due))
        await engine.wait(job.id, 30)
    assert started[0] >= due


async def test_two_workers_share_the_work_and_never_a_job(app: App, engine: Engine) -> None:
    ran: list[str] = []

    @app.job
    async def note(ctx: Context) -> None:
        ran.append(ctx.job_id)

    jobs = (await engine.submit_batch([Submission("note")] * 300)).jobs
    async with working(engine), working(engine):
        for job in jobs:
            await engine.wait(job.id, 30)
    assert sorted(ran) == [job.id for job in jobs]


async def test_a_retry_delay_is_capped_at_ten_years(app: App, engine: Engine) -> None:
    @app.job
    async def later(ctx: Context) -> None:
        raise Retry(after=1e30)

    async with working(engine):
        job = await engine.submit(Submission("later"))
        while (job := await engine.get(job.id)).reason is not Reason.RETRY:
            await engine.wait_for_event(job, job.last_event, 30)
    assert job.run_at - engine.clock.now() == pytest.approx(3_650 * 86_400_000, abs=60_000)
