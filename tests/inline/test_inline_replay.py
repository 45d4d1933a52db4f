"""Inline, too, code that does not fit what is on record is refused, and caught failures stay."""

from __future__ import annotations

import pytest

from coatcheck import App, Context, Fail, JobFailed
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.state import State
from coatcheck.model.step import Op, StepState
from coatcheck.testing import FakeClock, run_inline
from coatcheck.testing.inline_crash import CrashPoint
from coatcheck.testing.inline_jobs import InlineJob, InlineJobs
from tests.worker.script import CHANGED, FINE, SHAPES, Script


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", CHANGED)
def test_code_that_has_changed_is_refused(what: str, shape: str) -> None:
    app = App()
    before, now, words = CHANGED[what]
    script = Script(app, "job", shape, before, now)
    run = run_inline(app, "job")
    assert run.error is not None
    assert (run.state, run.attempts, run.error.code) == ("failed", 2, "steps-changed")
    assert words in run.error.message
    assert script.ran["x"] == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", FINE)
def test_code_that_may_be_fine_is_not_refused(what: str, shape: str) -> None:
    app = App()
    script = Script(app, "job", shape, *FINE[what])
    run = run_inline(app, "job")
    assert run.state == "succeeded", run.error
    assert set(script.ran.values()) == {1}


@pytest.mark.parametrize("kind", ["parent", "parent_in_a_thread"])
def test_a_caught_failure_stays_one_when_the_child_has_succeeded_since(kind: str) -> None:
    app = App()

    @app.job
    def leaf(ctx: Context) -> int:
        raise Fail("dry", "no rain")

    @app.job
    async def parent(ctx: Context) -> str:
        try:
            await ctx.gather(await ctx.spawn("leaf"))
        except JobFailed as error:
            await ctx.sleep("3d")
            return error.error_code
        return "it rained"

    @app.job
    def parent_in_a_thread(ctx: Context) -> str:
        try:
            ctx.gather(ctx.spawn("leaf"))
        except JobFailed as error:
            ctx.sleep("3d")
            return error.error_code
        return "it rained"

    def mend_the_child(each: InlineJob) -> CrashPoint:
        if each is job and each.claims == 3:  # it has waited for the child, then slept
            [child] = each.children
            child.status = child.status._replace(state=State.SUCCEEDED, error=None)
            child.result = "1"
        return CrashPoint(None)

    jobs = InlineJobs(app.kinds, FakeClock())
    job = jobs.submit(Submission(kind, "null"))
    jobs.run_all(mend_the_child)
    assert (job.claims, job.result) == (3, '"dry"')
    [gathered] = [step for step in job.steps.values() if step.id.op is Op.GATHER]
    assert (gathered.state, gathered.survived) == (StepState.FAILED, True)
