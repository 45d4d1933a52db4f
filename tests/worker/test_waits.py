"""Waits that hold no slot: for a time, for events, for other jobs."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.errors import JobError
from coatcheck.model.event import EventType
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op, StepState
from coatcheck.store.base import Store

from .conftest import SETTINGS, working
from .gate import Gate
from .job_control import Ahead, ended, lose, result_of, run, said, submit, until

pytestmark = pytest.mark.anyio

ONE_SLOT = replace(SETTINGS, concurrency=1)


async def send(engine: Engine, job_id: str, name: str, data: str = "true") -> None:
    await engine.store.jobs.send_event("default", job_id, name, data, engine.clock.now())


class Calls:
    """An async and a def handler that do the same, and how often they were called."""

    def __init__(self) -> None:
        self.calls = 0
        self.ran: Counter[str] = Counter()

    def work(self) -> int:
        self.ran["work"] += 1
        return 1


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_a_sleeping_job_holds_no_slot(app: App, store: Store, shape: str) -> None:
    seen, clock = Calls(), Ahead()
    engine = Engine(store, app.kinds, clock)

    @app.job
    async def quick(ctx: Context) -> int:
        return 1

    if shape == "async":

        @app.job(name="sleepy")
        async def on_loop(ctx: Context) -> int:
            seen.calls += 1
            await ctx.log("going to bed")
            await ctx.step(seen.work)
            await ctx.sleep(3_600)
            await ctx.log("awake")
            return ctx.attempt
    else:

        @app.job(name="sleepy")
        def in_thread(ctx: Context) -> int:
            seen.calls += 1
            ctx.log("going to bed")
            ctx.step(seen.work)
            ctx.sleep(3_600)
            ctx.log("awake")
            return ctx.attempt

    async with working(engine, ONE_SLOT):
        job_id = await submit(engine, "sleepy")
        job = await until(engine, job_id, State.WAITING)
        assert (job.reason, job.worker) == (Reason.WAITING, None)
        await run(engine, "quick")
        assert (await engine.get(job_id)).state is State.WAITING
        clock.ahead_ms = 3_600_000
        await run(engine, "quick")  # so that the worker checks for due jobs
        assert await result_of(engine, job_id) == 1
    assert (seen.calls, seen.ran["work"]) == (2, 1)
    logs = await said(engine, job_id, EventType.LOG)
    assert [line["message"] for line in logs] == ["going to bed", "awake"]  # type: ignore[index]


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_a_short_sleep_does_not_suspend_the_job(app: App, engine: Engine, shape: str) -> None:
    if shape == "async":

        @app.job(name="nap")
        async def on_loop(ctx: Context) -> None:
            await ctx.sleep(0.01)
    else:

        @app.job(name="nap")
        def in_thread(ctx: Context) -> None:
            ctx.sleep(0.01)

    async with working(engine):
        job = await run(engine, "nap")
    assert (job.state, job.fence) == (State.SUCCEEDED, 1)
    [step] = await engine.store.jobs.list_steps("default", job.id)
    assert (step.id.op, step.state) == (Op.SLEEP, StepState.SUCCEEDED)
    assert step.finished_at is not None
    assert step.finished_at >= (step.wake_at or 0)


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_a_job_receives_an_event(app: App, engine: Engine, shape: str) -> None:
    seen = Calls()

    if shape == "async":

        @app.job(name="approval")
        async def on_loop(ctx: Context) -> list[object]:
            await ctx.step(seen.work)
            return [await ctx.wait_for("approved"), await ctx.wait_for("approved")]
    else:

        @app.job(name="approval")
        def in_thread(ctx: Context) -> list[object]:
            ctx.step(seen.work)
            return [ctx.wait_for("approved"), ctx.wait_for("approved")]

    async with working(engine):
        job_id = await submit(engine, "approval")
        job = await until(engine, job_id, State.WAITING)
        await send(engine, job_id, "refused")
        assert (await engine.get(job_id)).state is State.WAITING
        await send(engine, job_id, "approved", '{"by":"ada"}')
        await until(engine, job_id, State.WAITING, after=job.last_event + 1)
        await send(engine, job_id, "approved", "2")
        assert await result_of(engine, job_id) == [{"by": "ada"}, 2]
    assert seen.ran["work"] == 1


async def test_an_early_event_waits_for_the_handler(app: App, engine: Engine) -> None:
    @app.job
    async def approval(ctx: Context) -> object:
        return await ctx.wait_for("approved")

    job_id = await submit(engine, "approval")
    await send(engine, job_id, "approved", '"early"')
    async with working(engine):
        assert await result_of(engine, job_id) == "early"
    assert (await engine.get(job_id)).fence == 1, "it did not have to wait"


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_an_event_after_the_timeout_goes_to_the_next_wait(
    app: App, engine: Engine, shape: str
) -> None:
    if shape == "async":

        @app.job(name="asks_twice")
        async def on_loop(ctx: Context) -> object:
            try:
                await ctx.wait_for("approved", timeout=0.01)
            except TimeoutError as error:
                return [str(error), await ctx.wait_for("approved")]
            return None
    else:

        @app.job(name="asks_twice")
        def in_thread(ctx: Context) -> object:
            try:
                ctx.wait_for("approved", timeout=0.01)
            except TimeoutError as error:
                return [str(error), ctx.wait_for("approved")]
            return None

    async with working(engine):
        job_id = await submit(engine, "asks_twice")
        async with asyncio.timeout(30):
            while True:  # until it waits for the second time
                job = await until(engine, job_id, State.WAITING)
                if len(await engine.store.jobs.list_steps("default", job_id)) == 2:
                    break
                await engine.wait_for_event(job, job.last_event, 30)
        await send(engine, job_id, "approved", '"late"')
        assert await result_of(engine, job_id) == ["no event 'approved' arrived in time", "late"]


async def test_a_wait_beside_other_effects_does_not_suspend_the_job(
    app: App, engine: Engine
) -> None:
    gate = threading.Event()
    seen = Calls()

    def slow() -> int:
        gate.wait(30)
        return seen.work()

    @app.job
    async def both(ctx: Context) -> list[object]:
        seen.calls += 1
        return list(await asyncio.gather(ctx.step(slow), ctx.wait_for("go"), ctx.sleep(0.01)))

    async with working(engine):
        job_id = await submit(engine, "both")
        job = await until(engine, job_id, State.RUNNING)
        await send(engine, job_id, "go", "7")
        gate.set()
        assert await result_of(engine, job_id) == [1, 7, None]
    assert seen.ran["work"] == 1
    assert job.attempt == (await engine.get(job_id)).attempt == 1


async def test_a_waiting_job_can_be_cancelled(app: App, engine: Engine) -> None:
    @app.job
    async def approval(ctx: Context) -> None:
        await ctx.gather(await ctx.spawn("endless"))

    @app.job
    async def endless(ctx: Context) -> None:
        await ctx.wait_for("godot")

    async with working(engine):
        job_id = await submit(engine, "approval")
        await until(engine, job_id, State.WAITING)
        [step, _] = await engine.store.jobs.list_steps("default", job_id)
        child = (step.result or "").strip('"')
        await until(engine, child, State.WAITING)
        assert (await engine.cancel(job_id)).state is State.CANCELLED
        assert (await ended(engine, child)).state is State.CANCELLED


async def test_a_drain_does_not_affect_waiting_jobs(app: App, engine: Engine) -> None:
    seen = Calls()

    @app.job
    async def approval(ctx: Context) -> object:
        await ctx.step(seen.work)
        return await ctx.wait_for("approved")

    job_id = await submit(engine, "approval")
    async with working(engine):
        await until(engine, job_id, State.WAITING)
    assert (await engine.get(job_id)).state is State.WAITING
    await send(engine, job_id, "approved")
    async with working(engine):
        assert await result_of(engine, job_id) is True
    assert (seen.ran["work"], (await engine.get(job_id)).attempt) == (1, 1)


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_calls_after_a_wait_have_no_effect_while_unwinding(
    app: App, engine: Engine, shape: str
) -> None:
    seen = Calls()

    if shape == "async":

        @app.job(name="tidy")
        async def on_loop(ctx: Context) -> object:
            try:
                return await ctx.wait_for("go")
            finally:
                await ctx.log("tidying up")
                await ctx.step(seen.work)
    else:

        @app.job(name="tidy")
        def in_thread(ctx: Context) -> object:
            try:
                return ctx.wait_for("go")
            finally:
                ctx.log("tidying up")
                ctx.step(seen.work)

    async with working(engine):
        job_id = await submit(engine, "tidy")
        await until(engine, job_id, State.WAITING)
        assert seen.ran["work"] == 0, "it only waits"
        await send(engine, job_id, "go", "7")
        assert await result_of(engine, job_id) == 7
    assert seen.ran["work"] == 1
    assert len(await said(engine, job_id, EventType.LOG)) == 1


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_a_handler_that_catches_everything_is_still_suspended(
    app: App, engine: Engine, shape: str
) -> None:
    if shape == "async":

        @app.job(name="deaf")
        async def on_loop(ctx: Context) -> object:
            try:
                return await ctx.wait_for("go")
            except BaseException:  # noqa: BLE001 - this is what it is about
                return "swallowed"
    else:

        @app.job(name="deaf")
        def in_thread(ctx: Context) -> object:
            try:
                return ctx.wait_for("go")
            except BaseException:  # noqa: BLE001 - this is what it is about
                return "swallowed"

    async with working(engine):
        job_id = await submit(engine, "deaf")
        job = await engine.get(job_id)
        while job.state not in (State.WAITING, State.SUCCEEDED):
            await engine.wait_for_event(job, job.last_event, 30)
            job = await engine.get(job_id)
        assert job.state is State.WAITING
        await send(engine, job_id, "go", "7")
        assert await result_of(engine, job_id) == 7


# --- other jobs


@pytest.mark.parametrize("shape", ["async", "thread"])
async def test_children_and_their_results_in_order(app: App, engine: Engine, shape: str) -> None:
    @app.job
    async def leaf(ctx: Context, n: int) -> int:
        return n * 10

    if shape == "async":

        @app.job(name="tree")
        async def on_loop(ctx: Context, count: int) -> list[int]:
            handles = [await ctx.spawn("leaf", n) for n in range(count)]
            return list(await ctx.gather(*reversed(handles)))
    else:

        @app.job(name="tree")
        def in_thread(ctx: Context, count: int) -> list[int]:
            handles = [ctx.spawn("leaf", n) for n in range(count)]
            return list(ctx.gather(*reversed(handles)))

    async with working(engine, ONE_SLOT):
        job = await run(engine, "tree", 20)
    assert job.result == str([n * 10 for n in reversed(range(20))]).replace(" ", "")
    steps = await engine.store.jobs.list_steps("default", job.id)
    ids = {(step.result or "").strip('"') for step in steps if step.id.op is Op.CHILD}
    children = await engine.store.jobs.get_many([("default", child) for child in ids])
    assert len(children) == 20
    assert {child.terms.parent for child in children} == {job.id}


async def test_children_are_spawned_once_even_if_their_parent_is_lost(
    app: App, engine: Engine
) -> None:
    gate = Gate()
    first = True

    @app.job
    async def leaf(ctx: Context, n: int) -> int:
        return n

    @app.job
    async def tree(ctx: Context) -> int:
        nonlocal first
        handles = [await ctx.spawn("leaf", n, key=n) for n in range(5)]
        if first:
            first = False
            await gate.hold_politely()
        return sum(await ctx.gather(*handles))

    async with working(engine) as worker:
        job_id = await submit(engine, "tree")
        await gate.begun.wait()
        await lose(engine, worker)
        assert await result_of(engine, job_id) == 10
    steps = await engine.store.jobs.list_steps("default", job_id)
    assert [step.id.op for step in steps] == [Op.CHILD] * 5 + [Op.GATHER]


async def test_a_child_that_failed(app: App, engine: Engine) -> None:
    @app.job(retries=0)
    async def leaf(ctx: Context) -> None:
        raise OSError("the line is dead")

    @app.job
    async def tree(ctx: Context) -> None:
        await ctx.gather(await ctx.spawn("leaf"))

    @app.job
    async def forgiving(ctx: Context) -> str:
        try:
            await ctx.gather(await ctx.spawn("leaf"))
        except JobError as error:
            return str(error)
        return "never"

    async with working(engine):
        job, forgiven = await run(engine, "tree"), await run(engine, "forgiving")
    assert job.error is not None
    assert (job.state, job.error.code, job.attempt) == (State.FAILED, "child-failed", 1)
    assert forgiven.state is State.SUCCEEDED
    assert "the line is dead" in (forgiven.result or "")


async def test_a_child_with_an_invalid_input_is_rejected(app: App, engine: Engine) -> None:
    @app.job
    async def leaf(ctx: Context, n: int) -> None: ...

    @app.job(retries=0)
    async def wrong_input(ctx: Context) -> None:
        await ctx.spawn("leaf", "many")

    @app.job(retries=0)
    def wrong_kind(ctx: Context) -> None:
        ctx.spawn("missing")

    async with working(engine):
        job, other = await run(engine, "wrong_input"), await run(engine, "wrong_kind")
    for failed in (job, other):
        assert failed.state is State.FAILED
        assert await engine.store.jobs.list_steps("default", failed.id) == []
    assert other.error is not None
    assert "there is no kind 'missing'" in other.error.message
