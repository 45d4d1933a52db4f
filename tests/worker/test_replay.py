"""Code that does not fit what a job has on record is refused, and code that may be fine is not."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

from coatcheck import App, Context, Fail, Retry
from coatcheck.engine.engine import Engine
from coatcheck.engine.fork import Fork
from coatcheck.errors import UnknownKind
from coatcheck.model.event import EventType
from coatcheck.model.state import State

from .both_stores import store
from .conftest import working
from .durable import ended, result_of, retry_at_once, said, submit, until
from .script import CHANGED, FINE, SHAPES, Script
from .test_interrupting import Gate
from .test_running_jobs import run

__all__ = ["store"]  # the fixture

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("shape", SHAPES)
async def test_code_that_has_changed_is_refused(app: App, engine: Engine, shape: str) -> None:
    scripts = {
        what: Script(app, what, shape, before, now, before.removesuffix("!"))
        for what, (before, now, _) in CHANGED.items()
    }
    async with working(engine):
        for what, script in scripts.items():
            job = await run(engine, what)
            assert (job.state, job.attempt) == (State.FAILED, 2), what
            assert job.error is not None
            assert job.error.code == "steps-changed"
            assert CHANGED[what][2] in job.error.message
            assert script.ran["x"] == 0
            await engine.resume(job.id)  # with the code it began with
            await result_of(engine, job.id)
            assert set(script.ran.values()) == {1}


@pytest.mark.parametrize("shape", SHAPES)
async def test_code_that_may_be_fine_is_not_refused(app: App, engine: Engine, shape: str) -> None:
    scripts = {what: Script(app, what, shape, *calls) for what, calls in FINE.items()}
    for what in scripts:
        retry_at_once(app, what)
    async with working(engine):
        for what, script in scripts.items():
            job = await run(engine, what)
            assert job.state is State.SUCCEEDED, (what, job.error)
            assert set(script.ran.values()) == {1}, what


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("now", ["", "x"])
async def test_what_a_job_waits_for_is_on_record_too(
    app: App, engine: Engine, now: str, shape: str
) -> None:
    script = Script(app, "job", shape, "~go", now)
    async with working(engine):
        job_id = await submit(engine, "job")
        await until(engine, job_id, State.WAITING)
        await engine.store.jobs.send_event("default", job_id, "go", "true", engine.clock.now())
        job = await ended(engine, job_id)
    assert job.error is not None
    assert (job.error.code, script.ran) == ("steps-changed", {})
    assert "recorded event 'go'" in job.error.message


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("calls", [("a b!", "a x +done"), ("[a b] c !", "[a] c +done")])
async def test_what_is_not_come_to_any_more_keeps_nobody_silent(
    app: App, engine: Engine, calls: tuple[str, ...], shape: str
) -> None:
    Script(app, "job", shape, *calls)
    retry_at_once(app, "job")
    async with working(engine):
        job = await run(engine, "job")
    assert job.state is State.SUCCEEDED
    assert await said(engine, job.id, EventType.LOG) == [{"message": "done"}]


async def test_a_refusal_cannot_be_swallowed(app: App, engine: Engine) -> None:
    ran: Counter[str] = Counter()
    calls = 0

    def a() -> None:
        ran["a"] += 1

    def x() -> None:
        ran["x"] += 1

    @app.job
    async def careless(ctx: Context) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await ctx.step(a)
            raise Retry(after=0)
        for _ in range(2):
            with contextlib.suppress(Exception):
                await ctx.step(x)
        await ctx.step(a)
        return "all is well"

    @app.job
    async def deaf(ctx: Context) -> str:
        nonlocal calls
        calls += 1
        try:
            await ctx.step(a if calls == 1 else x)
        except Exception:  # noqa: BLE001 - this is what it is about
            return "all is well"
        raise Retry(after=0)

    async with working(engine):
        job = await run(engine, "careless")
        calls = 0
        other = await run(engine, "deaf")
    for each in (job, other):
        assert each.error is not None
        assert (each.state, each.error.code) == (State.FAILED, "steps-changed")
    assert ran == {"a": 2}


@pytest.mark.parametrize("way", ["attempt", "Fail", "Retry"])
async def test_a_handler_may_end_early_on_purpose(app: App, engine: Engine, way: str) -> None:
    calls = 0

    def a() -> int:
        return 1

    @app.job(retries=1)
    async def gives_up(ctx: Context) -> str:
        nonlocal calls
        calls += 1
        if calls > 1:
            match way:
                case "attempt":
                    return f"enough after {ctx.attempt}"
                case "Fail":
                    raise Fail("enough", "no more")
                case "Retry":
                    raise Retry(after=0)
        await ctx.step(a)
        raise Retry(after=0)

    async with working(engine):
        job = await run(engine, "gives_up")
    if way == "attempt":
        assert job.result == '"enough after 2"'
    else:
        assert job.error is not None
        assert job.error.code == ("enough" if way == "Fail" else "retry")


async def test_a_handler_that_was_told_to_stop_may_end_early(app: App, engine: Engine) -> None:
    gate = Gate()
    calls = 0

    def a() -> int:
        return 1

    @app.job
    async def stops(ctx: Context) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await ctx.step(a)
            raise Retry(after=0)
        try:
            await gate.hold_politely()
        except asyncio.CancelledError:
            return f"as far as it came: {ctx.cancelled}"
        return "never"

    async with working(engine):
        job_id = await submit(engine, "stops")
        await gate.begun.wait()
        await engine.cancel(job_id)
        assert await result_of(engine, job_id) == "as far as it came: True"


async def test_a_fork_with_another_input_need_not_take_what_it_took_over(
    app: App, engine: Engine
) -> None:
    ran: Counter[str] = Counter()

    @app.job
    async def reads(ctx: Context, words: str) -> str:
        def step(name: str) -> str:
            ran[name] += 1
            return name

        for name in words.split():
            await ctx.step(step, name, key=name)
        return words

    async with working(engine):
        job_id = await submit(engine, "reads", "a b c")
        await result_of(engine, job_id)
        steps = await engine.store.jobs.list_steps("default", job_id)
        # A fork is made after what it takes over, if only by a millisecond: no clock tells of that.
        while engine.clock.now() <= steps[-1].started_at:  # noqa: ASYNC110
            await asyncio.sleep(0)
        shorter = (await engine.fork(Fork(job_id, 2, '"a"'))).job
        assert await result_of(engine, shorter.id) == "a"
        other = (await engine.fork(Fork(job_id, 2, '"a d"'))).job
        refused = await ended(engine, other.id)
    assert refused.error is not None
    assert "recorded step 'step' with key 'b' where the code now calls" in (refused.error.message)
    assert ran == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("way", ["refused", "signal", "cancelled"])
async def test_a_step_that_left_no_trace_may_come_again(app: App, engine: Engine, way: str) -> None:
    """It was never on record, and what came after it is: that alone is no sign of other code."""
    ran: Counter[str] = Counter()
    calls = 0

    async def a() -> None:
        ran["a"] += 1
        if way == "signal":
            raise Retry
        await asyncio.Event().wait()

    def b() -> None:
        ran["b"] += 1

    @app.job
    async def goes_on(ctx: Context) -> int:
        nonlocal calls
        calls += 1
        match way:
            case "refused":
                with pytest.raises(UnknownKind):
                    await ctx.spawn("missing")
            case "signal":
                with pytest.raises(Retry):
                    await ctx.step(a)
            case "cancelled":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await ctx.step(a)
        await ctx.step(b)
        if calls == 1:
            raise Retry(after=0)
        return calls

    async with working(engine):
        job = await run(engine, "goes_on")
    assert (job.state, job.result) == (State.SUCCEEDED, "2"), job.error
    assert ran["b"] == 1
