"""Replay: code that contradicts a job's history is rejected, and compatible code is not."""

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
from .gate import Gate
from .job_control import ended, result_of, retry_at_once, run, said, submit, until
from .script import CHANGED, FINE, SHAPES, Script

__all__ = ["store"]  # the fixture

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("shape", SHAPES)
async def test_changed_code_is_rejected(app: App, engine: Engine, shape: str) -> None:
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
            await engine.resume(job.id)  # with the original code
            await result_of(engine, job.id)
            assert set(script.ran.values()) == {1}


@pytest.mark.parametrize("shape", SHAPES)
async def test_compatible_code_is_accepted(app: App, engine: Engine, shape: str) -> None:
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
async def test_waits_are_recorded(app: App, engine: Engine, now: str, shape: str) -> None:
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
async def test_unreached_steps_do_not_silence_reports(
    app: App, engine: Engine, calls: tuple[str, ...], shape: str
) -> None:
    Script(app, "job", shape, *calls)
    retry_at_once(app, "job")
    async with working(engine):
        job = await run(engine, "job")
    assert job.state is State.SUCCEEDED
    assert await said(engine, job.id, EventType.LOG) == [{"message": "done"}]


async def test_a_rejection_cannot_be_caught(app: App, engine: Engine) -> None:
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


async def test_an_interrupted_handler_may_end_early(app: App, engine: Engine) -> None:
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


async def test_a_fork_with_another_input_need_not_reach_copied_steps(
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
        # A fork is created after the steps it copies, if only by a millisecond, which no clock
        # shows.
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
async def test_an_unrecorded_step_may_run_again(app: App, engine: Engine, way: str) -> None:
    """It was never recorded, but a later step was: that alone is no sign of changed code."""
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
