"""Durable steps: recorded once, and replayed in every later attempt."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from dataclasses import replace

import pytest
from pydantic import BaseModel

from coatcheck import App, Context, Retry
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.errors import StepFailed
from coatcheck.model.event import EventType
from coatcheck.model.kind import Backoff
from coatcheck.model.state import State
from coatcheck.model.step import StepState
from coatcheck.store.base import Store

from .conftest import SETTINGS, working
from .gate import Gate
from .job_control import Ahead, ended, lose, result_of, retry_at_once, run, said, submit, until

pytestmark = pytest.mark.anyio


class Ingest:
    """The pipeline extract -> chunk -> index, and how often each step ran."""

    def __init__(self, app: App, gate: Gate | None = None) -> None:
        self.ran: Counter[str] = Counter()
        self.keys: list[str] = []

        @app.job
        async def ingest(ctx: Context, document: str) -> dict[str, int]:
            def extract(document: str) -> list[str]:
                self.ran["extract"] += 1
                return document.split()

            async def chunk(words: list[str]) -> list[str]:
                self.ran["chunk"] += 1
                return [word[:3] for word in words]

            async def index(chunks: list[str]) -> dict[str, int]:
                self.ran["index"] += 1
                self.keys.append(ctx.step_key)
                if gate is not None and self.ran["index"] == 1:
                    await gate.hold_politely()
                return {"chunks": len(chunks)}

            words = await ctx.step(extract, document)
            indexed: dict[str, int] = await ctx.step(index, await ctx.step(chunk, words))
            return indexed


# I06: the three guarantees of durable ingestion, by their names.
async def test_durable_queue_returns_the_result_through_a_handle(app: App, engine: Engine) -> None:
    pipeline = Ingest(app)
    handle = await submit(engine, "ingest", "one two three")
    async with working(engine):
        assert await result_of(engine, handle) == {"chunks": 3}
    assert pipeline.ran == {"extract": 1, "chunk": 1, "index": 1}


# I05
async def test_replaying_a_finished_id_runs_zero_steps(app: App, engine: Engine) -> None:
    pipeline = Ingest(app)

    @app.job
    async def nothing(ctx: Context) -> None: ...

    handle = await submit(engine, "ingest", "one two three")
    async with working(engine):
        await result_of(engine, handle)
    pipeline.ran.clear()
    before = await engine.get(handle)
    submitted = Submission("ingest", '"one two three"')
    again = prepare(submitted, app.kinds, handle, engine.clock.now())
    async with working(engine):
        await engine.store.jobs.submit(again, engine.clock.now())
        await engine.store.jobs.resume("default", handle, engine.clock.now())
        assert await result_of(engine, handle) == {"chunks": 3}
        await run(engine, "nothing")  # all earlier claims are done
    assert pipeline.ran == {}
    assert await engine.get(handle) == before


# I02, I03, I04, I07
async def test_a_crash_inside_the_last_step_resumes_without_re_running_the_earlier_ones(
    app: App, engine: Engine
) -> None:
    gate = Gate()
    pipeline = Ingest(app, gate)
    handle = await submit(engine, "ingest", "one two three")
    async with working(engine) as worker:
        await gate.begun.wait()
        await lose(engine, worker)
        assert await result_of(engine, handle) == {"chunks": 3}
    assert pipeline.ran == {"extract": 1, "chunk": 1, "index": 2}
    assert pipeline.keys == [f"{handle}/index#0"] * 2, "the same whenever it is tried"
    assert (await engine.get(handle)).attempt == 2


async def test_each_step_appears_in_the_event_log(app: App, engine: Engine) -> None:
    Ingest(app)
    handle = await submit(engine, "ingest", "one two")
    async with working(engine):
        await result_of(engine, handle)
    told = await said(engine, handle, EventType.STEP)
    assert [(step["name"], step["state"]) for step in told] == [  # type: ignore[index]
        *(("extract", "succeeded"), ("chunk", "succeeded"), ("index", "succeeded"))
    ]
    steps = await engine.store.jobs.list_steps("default", handle)
    assert [step.result for step in steps] == ['["one","two"]', '["one","two"]', '{"chunks":2}']


@pytest.mark.parametrize("way", ["gather", "group"])
async def test_concurrent_steps(app: App, engine: Engine, way: str) -> None:
    ran: Counter[int] = Counter()
    together = threading.Barrier(2)

    def meet(n: int) -> int:
        ran[n] += 1
        together.wait(30)
        return n * 10

    @app.job
    async def both(ctx: Context) -> list[int]:
        if way == "gather":
            results = list(await asyncio.gather(*(ctx.step(meet, n, key=n) for n in (1, 2))))
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ctx.step(meet, n, key=n)) for n in (1, 2)]
            results = [task.result() for task in tasks]
        if ctx.attempt < 3:
            raise Retry(after=0)
        return results

    async with working(engine):
        job = await run(engine, "both")
    assert (job.state, job.result, job.attempt) == (State.SUCCEEDED, "[10,20]", 3)
    assert ran == {1: 1, 2: 1}
    assert all(step.overlapped for step in await engine.store.jobs.list_steps("default", job.id))


# The first call is never awaited, because the second raises.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_concurrent_steps_of_one_name_need_keys(app: App, engine: Engine) -> None:
    async def fetch(n: int) -> int:
        return n

    @app.job(retries=0)
    async def ambiguous(ctx: Context) -> None:
        await asyncio.gather(ctx.step(fetch, 1), ctx.step(fetch, 2))

    @app.job(retries=0)
    async def same_key(ctx: Context) -> None:
        await asyncio.gather(ctx.step(fetch, 1, key="a"), ctx.step(fetch, 2, key="a"))

    async with working(engine):
        job, other = await run(engine, "ambiguous"), await run(engine, "same_key")
    assert job.error is not None
    assert "two calls of step 'fetch' are in progress at once; give each its" in job.error.message
    assert other.error is not None
    assert "step 'fetch' with key 'a' is already in progress" in other.error.message


class Order(BaseModel):
    items: list[str]


def order() -> Order:
    return Order(items=["hat"])


async def test_replayed_results_have_their_type(app: App, engine: Engine) -> None:
    seen = []

    @app.job
    async def buy(ctx: Context) -> int:
        bought = await ctx.step(order)
        seen.append(bought)
        if ctx.attempt == 1:
            raise Retry(after=0)
        return len(bought.items)

    async with working(engine):
        job = await run(engine, "buy")
    assert (job.result, seen) == ("1", [Order(items=["hat"])] * 2)


async def test_a_result_that_is_not_json_fails_the_step(app: App, engine: Engine) -> None:
    def opens() -> object:
        return threading.Lock()

    @app.job(retries=0)
    async def odd(ctx: Context) -> None:
        await ctx.step(opens)

    async with working(engine):
        job = await run(engine, "odd")
    assert job.state is State.FAILED
    assert job.error is not None
    assert "step 'opens' failed" in job.error.message


async def test_a_result_that_cannot_be_deserialized_fails_the_step(
    app: App, engine: Engine
) -> None:
    def half() -> float:
        return float("nan")  # which is null in JSON

    @app.job(retries=0)
    async def odd(ctx: Context) -> None:
        await ctx.step(half)

    async with working(engine):
        job = await run(engine, "odd")
    assert job.error is not None
    assert "step 'half' failed" in job.error.message
    [step] = await engine.store.jobs.list_steps("default", job.id)
    assert step.state is StepState.FAILED


@pytest.mark.parametrize("wrong", ["sleep", "wait", "timeout", "key"])
async def test_an_invalid_step_key_is_rejected(app: App, engine: Engine, wrong: str) -> None:
    def work() -> None:
        raise AssertionError("it must not run")

    @app.job(retries=0)
    async def odd(ctx: Context) -> None:
        match wrong:
            case "sleep":
                await ctx.sleep(10**30)
            case "wait":
                await ctx.wait_for("go", timeout=10**30)
            case "timeout":
                await ctx.step(work, timeout=10**30)
            case "key":
                await ctx.step(work, key="\ud800")

    async with working(engine):
        job = await run(engine, "odd")
    assert job.error is not None
    assert "InvalidInput" in job.error.message
    assert await engine.store.jobs.list_steps("default", job.id) == []


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_changed_code_is_named_beside_the_recorded_step(
    app: App, engine: Engine, shape: str
) -> None:
    ran = []

    def reserve() -> int:
        return 1

    def charge() -> None:
        ran.append("charge")

    def first(ctx: Context) -> object:
        return reserve if ctx.attempt == 1 else charge

    if shape == "async":

        @app.job(name="changes")
        async def on_loop(ctx: Context) -> None:
            await ctx.step(first(ctx))  # type: ignore[arg-type]
            raise Retry(after=0)
    else:

        @app.job(name="changes")
        def in_thread(ctx: Context) -> None:
            ctx.step(first(ctx))  # type: ignore[arg-type]
            raise Retry(after=0)

    async with working(engine):
        job = await run(engine, "changes")
    assert (job.state, job.attempt, ran) == (State.FAILED, 2, [])
    assert job.error is not None
    assert job.error.code == "steps-changed"
    assert "recorded step 'reserve' where the code now calls step 'charge'" in (job.error.message)


async def test_a_recorded_result_of_another_type_is_reported(app: App, engine: Engine) -> None:
    def number() -> int:
        return 1

    def text() -> Order:
        raise AssertionError("it is on record")

    text.__name__ = "number"

    @app.job
    async def changes(ctx: Context) -> None:
        await ctx.step(number if ctx.attempt == 1 else text)
        raise Retry(after=0)

    async with working(engine):
        job = await run(engine, "changes")
    assert job.error is not None
    assert job.error.code == "steps-changed"
    assert "the recorded result of step 'number' does not match" in job.error.message


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_reports_are_not_repeated_in_a_replay(app: App, engine: Engine, shape: str) -> None:
    def work() -> int:
        return 1

    if shape == "async":

        @app.job(name="talk")
        async def on_loop(ctx: Context) -> None:
            await ctx.log("before")
            await ctx.emit("before")
            await ctx.step(work)
            await ctx.log("after")
            if ctx.attempt == 1:
                raise Retry(after=0)
            await ctx.progress(1, 1)
    else:

        @app.job(name="talk")
        def in_thread(ctx: Context) -> None:
            ctx.log("before")
            ctx.emit("before")
            ctx.step(work)
            ctx.log("after")
            if ctx.attempt == 1:
                raise Retry(after=0)
            ctx.progress(1, 1)

    async with working(engine):
        job = await run(engine, "talk")
    logs = await said(engine, job.id, EventType.LOG)
    # Reports after the last recorded step may or may not have been made.
    assert [line["message"] for line in logs] == ["before", "after", "after"]  # type: ignore[index]
    assert await said(engine, job.id, EventType.OUTPUT) == ["before"]
    assert job.progress is not None


async def test_a_def_handler_runs_sync_and_async_steps(app: App, engine: Engine) -> None:
    ran: Counter[str] = Counter()

    def plain(n: int) -> int:
        ran["plain"] += 1
        return n + 1

    async def awaited(n: int) -> int:
        ran["awaited"] += 1
        await asyncio.sleep(0)
        return n + 1

    @app.job
    def steps(ctx: Context, n: int) -> int:
        done: int = ctx.step(awaited, ctx.step(plain, n), timeout=30)
        if ctx.attempt == 1:
            raise Retry(after=0)
        return done

    async with working(engine):
        job = await run(engine, "steps", 1)
    assert (job.result, job.attempt, ran) == ("3", 2, {"plain": 1, "awaited": 1})


async def test_a_thousand_steps_are_replayed(app: App, engine: Engine) -> None:
    ran: Counter[int] = Counter()

    def one(n: int) -> int:
        ran[n] += 1
        return n

    @app.job
    async def many(ctx: Context) -> int:
        total = 0
        for n in range(1_000):
            total += await ctx.step(one, n)
        if ctx.attempt == 1:
            raise Retry(after=0)
        return total

    async with working(engine):
        job = await run(engine, "many")
    assert (job.result, job.attempt) == (str(sum(range(1_000))), 2)
    assert set(ran.values()) == {1}


async def test_cancel_in_a_step(app: App, engine: Engine) -> None:
    gate = Gate()

    @app.job
    async def stubborn(ctx: Context) -> None:
        await ctx.step(gate.hold_politely)

    job_id = await submit(engine, "stubborn")
    async with working(engine):
        await gate.begun.wait()
        await engine.cancel(job_id)
        job = await ended(engine, job_id)
        await gate.stopped.wait()
    assert job.state is State.CANCELLED
    assert await engine.store.jobs.list_steps("default", job_id) == []


async def test_a_drain_keeps_recorded_steps(app: App, engine: Engine) -> None:
    gate = Gate()
    pipeline = Ingest(app, gate)
    job_id = await submit(engine, "ingest", "one two")
    async with working(engine, replace(SETTINGS, drain_s=0.05)):
        await gate.begun.wait()
    job = await engine.get(job_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    async with working(engine):
        assert await result_of(engine, job_id) == {"chunks": 2}
    assert pipeline.ran == {"extract": 1, "chunk": 1, "index": 2}
    assert (await engine.get(job_id)).attempt == 1


# --- steps that fail


async def test_a_step_is_retried_before_its_job(app: App, engine: Engine) -> None:
    tries = []

    def fragile() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return len(tries)

    @app.job
    async def patient(ctx: Context) -> int:
        return int(await ctx.step(fragile, retries=2))

    retry_at_once(app, "patient")
    async with working(engine):
        job = await run(engine, "patient")
    assert (job.state, job.result, job.attempt) == (State.SUCCEEDED, "3", 1)
    [step] = await engine.store.jobs.list_steps("default", job.id)
    assert (step.state, step.attempts, step.error) == (StepState.SUCCEEDED, 3, None)


# I13
@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_a_long_backoff_frees_the_slot(app: App, store: Store, shape: str) -> None:
    tries, clock = [], Ahead()
    engine = Engine(store, app.kinds, clock)

    def fragile() -> int:
        tries.append(1)
        if len(tries) < 2:
            raise OSError("not yet")
        return len(tries)

    if shape == "async":

        @app.job(name="patient")
        async def on_loop(ctx: Context) -> int:
            return int(await ctx.step(fragile, retries=1))
    else:

        @app.job(name="patient")
        def in_thread(ctx: Context) -> int:
            return int(ctx.step(fragile, retries=1))

    @app.job
    async def quick(ctx: Context) -> None: ...

    app._kinds["patient"] = replace(app.kinds["patient"], backoff=Backoff(3_600_000, 3_600_000))
    async with working(engine):
        job_id = await submit(engine, "patient")
        job = await until(engine, job_id, State.WAITING)
        [step] = await engine.store.jobs.list_steps("default", job_id)
        assert (step.state, step.attempts, step.wake_at) == (StepState.WAITING, 1, job.run_at)
        assert step.error is not None
        clock.ahead_ms = 3_600_000
        await run(engine, "quick")  # so that the worker checks for due jobs
        assert await result_of(engine, job_id) == 2
    assert (await engine.get(job_id)).attempt == 1


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_a_caught_failure_is_part_of_the_history(
    app: App, engine: Engine, shape: str
) -> None:
    tries, caught = [], []

    def fails() -> None:
        tries.append(1)
        raise OSError("the line is dead")

    def other() -> str:
        return "another way"

    def note(ctx: Context, error: StepFailed) -> None:
        caught.append((error.step, error.error_code, error.message))
        if ctx.attempt == 1:
            raise Retry(after=0)

    if shape == "async":

        @app.job(name="falls_back")
        async def on_loop(ctx: Context) -> str:
            try:
                await ctx.step(fails)
            except StepFailed as error:
                found = str(await ctx.step(other))
                note(ctx, error)
                return found
            return "never"
    else:

        @app.job(name="falls_back")
        def in_thread(ctx: Context) -> str:
            try:
                ctx.step(fails)
            except StepFailed as error:
                found = str(ctx.step(other))
                note(ctx, error)
                return found
            return "never"

    async with working(engine):
        job = await run(engine, "falls_back")
    assert (job.result, len(tries)) == ('"another way"', 1)
    assert caught == [("fails", "OSError", "OSError: the line is dead")] * 2
    first = (await engine.store.jobs.list_steps("default", job.id))[0]
    assert (first.state, first.survived) == (StepState.FAILED, True)


async def test_an_uncaught_step_failure_is_retried(app: App, engine: Engine) -> None:
    tries = []

    def fails_once() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the line is dead")
        return len(tries)

    @app.job
    async def plain(ctx: Context) -> int:
        return int(await ctx.step(fails_once))

    retry_at_once(app, "plain")
    async with working(engine):
        job = await run(engine, "plain")
    assert (job.state, job.result, job.attempt) == (State.SUCCEEDED, "2", 2)


@pytest.mark.parametrize("handler", ["async", "thread"])
@pytest.mark.parametrize("body", ["async", "def"])
async def test_a_step_that_exceeds_its_timeout_fails(
    app: App, engine: Engine, handler: str, body: str
) -> None:
    let_go = threading.Event()

    def blocks() -> None:
        let_go.wait(30)

    async def waits() -> None:
        await asyncio.Event().wait()

    slow = waits if body == "async" else blocks

    if handler == "async":

        @app.job(name="hurries", retries=0)
        async def on_loop(ctx: Context) -> str:
            try:
                await ctx.step(slow, timeout=0.05)
            except StepFailed as error:
                return error.message
            return "in time"
    else:

        @app.job(name="hurries", retries=0)
        def in_thread(ctx: Context) -> str:
            try:
                ctx.step(slow, timeout=0.05)
            except StepFailed as error:
                return error.message
            return "in time"

    async with working(engine):
        job = await run(engine, "hurries")
    let_go.set()
    assert json.loads(job.result or "") == "TimeoutError: the step took longer than 0.05 s"


async def test_the_step_key_is_available_in_the_function_only(app: App, engine: Engine) -> None:
    keys: list[str] = []

    @app.job(retries=0)
    async def outside(ctx: Context) -> None:
        def note() -> None:
            keys.append(ctx.step_key)

        await ctx.step(note, key="#0")
        await ctx.step(note)
        await ctx.step(note)
        keys.append(ctx.step_key)

    async with working(engine):
        job = await run(engine, "outside")
    assert keys == [f"{job.id}/note/#0", f"{job.id}/note#0", f"{job.id}/note#1"]
    assert job.error is not None
    assert "available only in the function of a step" in job.error.message
