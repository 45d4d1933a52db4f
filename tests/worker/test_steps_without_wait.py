"""Steps with `wait=False` are recorded with the next write, and never out of order."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.model.payload import INLINE_BYTES
from coatcheck.store.base import Report, Store
from coatcheck.worker.steps.effects import QUICK_MS
from tests.store_proxy import StoreProxy

from .conftest import working
from .gate import Gate
from .job_control import lose, result_of, submit

pytestmark = pytest.mark.anyio


class Watched(StoreProxy):
    """The real store. It records the steps of each report, and can hold a report of progress."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.written: list[list[str]] = []
        self.wrote = asyncio.Event()
        self.held = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def report(self, lease: Any, report: Report, now: int) -> bool:
        if report.progress is not None and not self.go_on.is_set():
            self.held.set()
            await self.go_on.wait()
        taken = await self._store.workers.report(lease, report, now)
        self.written.append([step.id.name for step in report.steps])
        self.wrote.set()
        return taken


def first() -> str:
    return "a"


def second(before: str) -> str:
    return before + "b"


async def test_a_step_without_wait_is_written_with_the_next_step(app: App, store: Store) -> None:
    watched = Watched(store)
    engine = Engine(watched, app.kinds)

    @app.job
    async def pipeline(ctx: Context) -> str:
        before = await ctx.step(first, wait=False)
        assert watched.written == []
        return str(await ctx.step(second, before))

    job_id = await submit(engine, "pipeline")
    async with working(engine):
        assert await result_of(engine, job_id) == "ab"
    assert watched.written == [["first", "second"]]
    assert [step.id.name for step in await engine.steps(job_id)] == ["first", "second"]


async def test_a_step_without_wait_is_written_with_the_outcome(app: App, engine: Engine) -> None:
    @app.job
    def pipeline(ctx: Context) -> str:
        return str(ctx.step(first, wait=False))

    job_id = await submit(engine, "pipeline")
    async with working(engine):
        assert await result_of(engine, job_id) == "a"
    [step] = await engine.steps(job_id)
    assert (step.id.name, step.result) == ("first", '"a"')


async def test_a_step_without_wait_is_written_soon_if_nothing_follows(
    app: App, store: Store
) -> None:
    watched = Watched(store)
    engine = Engine(watched, app.kinds)
    gate, ran = Gate(), Counter[str]()

    @app.job
    async def pipeline(ctx: Context) -> str:
        def count() -> str:
            ran["count"] += 1
            return "a"

        async def long() -> None:
            ran["long"] += 1
            if ran["long"] == 1:
                await gate.hold_politely()

        found = await ctx.step(count, wait=False)
        await ctx.step(long)
        return str(found)

    job_id = await submit(engine, "pipeline")
    async with working(engine) as worker:
        await gate.begun.wait()
        await watched.wrote.wait()
        await lose(engine, worker)
        assert await result_of(engine, job_id) == "a"
    assert ran == {"count": 1, "long": 2}


@pytest.mark.parametrize("why", ["slow", "large"])
async def test_a_slow_or_large_step_without_wait_is_written_at_once(
    app: App, store: Store, why: str
) -> None:
    watched = Watched(store)
    engine = Engine(watched, app.kinds)

    @app.job
    def pipeline(ctx: Context) -> int:
        def made() -> str:
            if why == "slow":
                time.sleep(QUICK_MS * 2 / 1000)
            return "x" * (INLINE_BYTES if why == "large" else 1)

        found = ctx.step(made, wait=False)
        assert watched.written == [["made"]]
        return len(found)

    job_id = await submit(engine, "pipeline")
    async with working(engine):
        assert await result_of(engine, job_id)


async def test_steps_are_recorded_in_order(app: App, store: Store) -> None:
    watched = Watched(store)
    watched.go_on.clear()
    engine = Engine(watched, app.kinds)

    @app.job
    async def pipeline(ctx: Context) -> str:
        before = await ctx.step(first, wait=False)
        await ctx.progress(1, 2)
        await watched.held.wait()  # the report with the first step is in progress
        asyncio.get_running_loop().call_later(0.2, watched.go_on.set)
        return str(await ctx.step(second, before))

    job_id = await submit(engine, "pipeline")
    async with working(engine):
        assert await result_of(engine, job_id) == "ab"
    assert watched.written == [["first"], ["second"]]
