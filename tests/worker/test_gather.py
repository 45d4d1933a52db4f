"""Results and failures that `gather` gave a handler are part of its history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from coatcheck import App, Context, Fail, JobCancelled, JobFailed
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import JobError
from coatcheck.model.state import State
from coatcheck.model.step import Op, Step, StepState
from coatcheck.store.base import BATCH_LIMIT
from coatcheck.worker.steps.effects import ChildJob

from .both_stores import store
from .conftest import SETTINGS, working
from .gate import Gate
from .job_control import PATIENCE_S, ended, result_of, submit

__all__ = ["store"]  # the fixture

pytestmark = pytest.mark.anyio

SEVERAL = BATCH_LIMIT - 1  # the maximum that can be submitted with their parent


class Family:
    """Parents that catch the failure of their child and continue, and a child that can be fixed."""

    def __init__(self, app: App, gate: Gate | None = None) -> None:
        self.told: list[dict[str, object]] = []
        self.is_mended = False
        self.calls = 0

        @app.job
        async def leaf(ctx: Context, how: str) -> str:
            if how == "cancelled":
                await ctx.wait_for("go")
            if self.is_mended:
                return "mended"
            raise Fail("dry", "no rain")

        @app.job
        async def parent(ctx: Context, how: str) -> str:
            child = await ctx.spawn("leaf", how)
            try:
                [found] = await ctx.gather(child)
            except JobError as error:
                found = self.note(error)
            await ctx.wait_for("go")
            return str(found)

        @app.job
        def parent_in_a_thread(ctx: Context, how: str) -> str:
            child = ctx.spawn("leaf", how)
            try:
                [found] = ctx.gather(child)
            except JobError as error:
                found = self.note(error)
            ctx.wait_for("go")
            return str(found)

        @app.job(retries=0)
        async def strict(ctx: Context, how: str) -> str:
            [found] = await ctx.gather(await ctx.spawn("leaf", how))
            return str(found)

        async def hold() -> str:
            self.calls += 1
            if gate is not None and self.calls == 1:
                await gate.hold_politely()
            return "held"

        @app.job
        async def acts_on_it(ctx: Context, how: str) -> str:
            try:
                [found] = await ctx.gather(await ctx.spawn("leaf", how))
            except JobError as error:
                return f"{self.note(error)}, {await ctx.step(hold)}"
            return str(found)

    def note(self, error: JobError) -> str:
        self.told.append({"type": type(error), "message": str(error), **vars(error)})
        return "another way"


async def on_record(engine: Engine, job_id: str, op: Op, patience_s: float = PATIENCE_S) -> Step:
    """Wait until a job has recorded a step of this operation."""
    async with asyncio.timeout(patience_s):
        while True:
            job = await engine.get(job_id)
            for step in await engine.store.jobs.list_steps("default", job_id):
                if step.id.op is op:
                    return step
            await engine.wait_for_event(job, job.last_event, PATIENCE_S)


async def child_of(engine: Engine, job_id: str) -> str:
    step = await on_record(engine, job_id, Op.CHILD)
    return str(json.loads(step.result or ""))


async def go(engine: Engine, job_id: str) -> None:
    await engine.store.jobs.send_event("default", job_id, "go", "true", engine.clock.now())


@pytest.mark.parametrize("how", ["failed", "cancelled"])
@pytest.mark.parametrize("kind", ["parent", "parent_in_a_thread"])
async def test_a_survived_failure_stays_after_the_child_has_succeeded(
    app: App, engine: Engine, kind: str, how: str
) -> None:
    family = Family(app)
    async with working(engine):
        job_id = await submit(engine, kind, how)
        child = await child_of(engine, job_id)
        if how == "cancelled":
            await on_record(engine, child, Op.EVENT)
            await engine.cancel(child)
        await on_record(engine, job_id, Op.EVENT)  # it has continued, and waits
        family.is_mended = True
        await engine.resume(child)
        if how == "cancelled":
            await go(engine, child)
        assert await result_of(engine, child) == "mended"
        await go(engine, job_id)
        assert await result_of(engine, job_id) == "another way"
    first, again = family.told
    assert first == again
    assert (first["type"], first["job_id"]) == (
        JobFailed if how == "failed" else JobCancelled,
        child,
    )
    if how == "failed":
        assert (first["error_code"], first["message"]) == ("dry", "no rain")
    step = await on_record(engine, job_id, Op.GATHER)
    assert (step.state, step.survived) == (StepState.FAILED, True)
    assert json.loads(step.result or "") == {"job": child, "state": how}


async def test_a_deleted_child_is_recorded_as_gone(app: App, engine: Engine) -> None:
    found: list[str] = []

    @app.job
    async def leaf(ctx: Context) -> int:
        return 1

    @app.job
    async def late(ctx: Context) -> str:
        child = await ctx.spawn("leaf")
        await ctx.wait_for("go")
        try:
            await ctx.gather(child)
        except JobFailed as error:
            found.append(error.error_code)
        await ctx.wait_for("go")
        return found[-1]

    async with working(engine):
        job_id = await submit(engine, "late")
        child = await child_of(engine, job_id)
        assert await result_of(engine, child) == 1
        await engine.delete(child)
        await go(engine, job_id)
        await on_record(engine, job_id, Op.GATHER)
        await go(engine, job_id)
        assert await result_of(engine, job_id) == "gone"
    step = await on_record(engine, job_id, Op.GATHER)
    assert json.loads(step.result or "") == {"job": child, "state": "gone"}


async def test_an_uncaught_failure_of_a_child_is_checked_again(app: App, engine: Engine) -> None:
    family = Family(app)
    async with working(engine):
        job_id = await submit(engine, "strict", "failed")
        job = await ended(engine, job_id)
        assert job.error is not None
        assert (job.state, job.error.code) == (State.FAILED, "child-failed")
        step = await on_record(engine, job_id, Op.GATHER)
        assert (step.state, step.survived) == (StepState.FAILED, False)
        family.is_mended = True
        child = await child_of(engine, job_id)
        await engine.resume(child)
        await result_of(engine, child)
        await engine.resume(job_id)
        assert await result_of(engine, job_id) == "mended"


async def test_a_failure_is_recorded_before_the_next_step_runs(app: App, engine: Engine) -> None:
    gate = Gate()
    family = Family(app, gate)
    async with working(engine, replace(SETTINGS, drain_s=0.05)):  # it is released, not awaited
        job_id = await submit(engine, "acts_on_it", "failed")
        await gate.begun.wait()
        step = await on_record(engine, job_id, Op.GATHER)
        assert (step.state, step.survived) == (StepState.FAILED, True)
    family.is_mended = True
    child = await child_of(engine, job_id)
    await engine.resume(child)
    async with working(engine):
        assert await result_of(engine, child) == "mended"
        assert await result_of(engine, job_id) == "another way, held"
    assert family.calls == 2


async def test_gathered_results_outlive_the_children(app: App, engine: Engine) -> None:
    @app.job
    async def leaf(ctx: Context, n: int) -> int:
        return n * 10

    @app.job
    async def parent(ctx: Context) -> list[int]:
        handles = [await ctx.spawn("leaf", n) for n in range(3)]
        found = await ctx.gather(*reversed(handles))
        await ctx.wait_for("go")
        return list(found)

    async with working(engine):
        job_id = await submit(engine, "parent")
        await on_record(engine, job_id, Op.EVENT)
        for step in await engine.store.jobs.list_steps("default", job_id):
            if step.id.op is Op.CHILD:
                await engine.delete(json.loads(step.result or ""))
        await go(engine, job_id)
        assert await result_of(engine, job_id) == [20, 10, 0]


async def test_a_changed_number_of_gathered_jobs_is_rejected(app: App, engine: Engine) -> None:
    wanted = 2

    @app.job
    async def leaf(ctx: Context, n: int) -> int:
        return n

    @app.job
    async def parent(ctx: Context) -> int:
        handles = [await ctx.spawn("leaf", n) for n in range(2)]
        found = await ctx.gather(*handles[:wanted])
        await ctx.wait_for("go")
        return len(found)

    async with working(engine):
        job_id = await submit(engine, "parent")
        await on_record(engine, job_id, Op.EVENT)
        wanted = 1
        await go(engine, job_id)
        job = await ended(engine, job_id)
    assert job.error is not None
    assert job.error.code == "steps-changed"
    assert "the recorded results of 2 job(s)" in job.error.message


async def test_thousands_of_children_are_gathered_in_order(app: App, engine: Engine) -> None:
    calls = 0

    @app.job
    async def leaf(ctx: Context, n: int) -> int:
        return n

    @app.job
    async def parent(ctx: Context, ids: list[str]) -> bool:
        nonlocal calls
        calls += 1
        found = await ctx.gather(*(ChildJob(job_id, "leaf") for job_id in reversed(ids)))
        await ctx.wait_for("go")
        return bool(found == list(reversed(range(SEVERAL))))

    def gathering(ids: Sequence[str]) -> Submission:
        return Submission("parent", json.dumps(list(ids)))

    leaves = [Submission("leaf", str(n)) for n in range(SEVERAL)]
    [job], _ = await engine.submit_family(leaves, gathering)
    async with working(engine):
        await on_record(engine, job.id, Op.EVENT, 10 * PATIENCE_S)
        before = calls
        await go(engine, job.id)
        assert await result_of(engine, job.id) is True
    assert calls > before
    steps = await engine.store.jobs.list_steps("default", job.id)
    assert [step.id.op for step in steps] == [Op.GATHER, Op.EVENT]
