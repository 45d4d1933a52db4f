"""Running jobs inline, as users test theirs."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck import App, Context, Fail, Retry
from coatcheck.errors import InvalidPayload, UnknownKind
from coatcheck.testing import FakeClock, run_inline

app = App()


@app.job
async def count(ctx: Context, to: int) -> int:
    await ctx.phase("counting")
    for n in range(to):
        await ctx.progress(n, to)
        await ctx.log("counted", n=n)
    return to


@app.job
def count_in_a_thread(ctx: Context, to: int) -> int:
    try:
        ctx.progress(0, to)
    except Exception:  # noqa: BLE001 - no handler can swallow the death of its worker
        return -1
    return to


@app.job
async def later(ctx: Context) -> int:
    if ctx.attempt < 3:
        raise Retry(after=60)
    return ctx.attempt


@app.job
async def never(ctx: Context) -> None:
    raise Fail("no", "not today")


@app.job(on_lost="fail")
async def once(ctx: Context) -> None:
    await ctx.progress(1)


def test_a_job_runs_to_its_end_and_all_it_said_is_there() -> None:
    run = run_inline(app, "count", 2)
    assert (run.state, run.result, run.attempts, run.crashes) == ("succeeded", 2, 1, 0)
    assert [step.done for step in run.progress] == [0, 1]
    assert run.phases == ["counting"]
    assert run.logs == [{"message": "counted", "n": 0}, {"message": "counted", "n": 1}]


@pytest.mark.parametrize("kind", ["count", "count_in_a_thread"])
def test_a_crash_uses_up_an_attempt(kind: str) -> None:
    run = run_inline(app, kind, 2, crash={1: 1, 2: 1})
    assert (run.state, run.result, run.attempts, run.crashes) == ("succeeded", 2, 3, 2)
    lost = run_inline(app, kind, 2, crash={1: 1, 2: 1, 3: 1})
    assert (lost.state, lost.reason, lost.result) == ("failed", "lost", None)
    assert run_inline(app, kind, 2, crash={1: 1}, max_attempts=1).state == "failed"


def test_a_crash_fails_what_must_not_run_twice() -> None:
    run = run_inline(app, "once", crash={1: 1})
    assert (run.state, run.reason, run.attempts) == ("failed", "lost", 1)


def test_retries_happen_at_once_on_a_clock_that_moves() -> None:
    clock = FakeClock(at=0)
    run = run_inline(app, "later", clock=clock)
    assert (run.state, run.result, clock.now(), clock.monotonic()) == ("succeeded", 3, 120_000, 120)


def test_a_failure_says_why() -> None:
    run = run_inline(app, "never")
    assert run.error is not None
    assert (run.state, run.error.code, run.attempts) == ("failed", "no", 1)


def test_an_input_is_checked_as_by_the_server() -> None:
    with pytest.raises(InvalidPayload):
        run_inline(app, "count", "many")
    with pytest.raises(UnknownKind):
        run_inline(app, "missing")


def test_it_works_where_a_loop_is_running() -> None:
    async def inside() -> int:
        return int(run_inline(app, "count", 1).result)

    assert asyncio.run(inside()) == 1
