"""Jobs that are submitted in one write with the parent that waits for them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from coatcheck import App, Context, Fail
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import InvalidPayload, JobFailed, KeyReused
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.worker.steps.effects import ChildJob

from .conftest import working
from .job_control import result_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> App:
    app = App()

    @app.job
    async def double(ctx: Context, number: int) -> int:
        if number < 0:
            raise Fail("negative", f"{ctx.tenant} has no {number}")
        return number * 2

    @app.job
    async def collect(ctx: Context, ids: list[str]) -> list[object]:
        found: list[object] = []
        for job_id in ids:
            try:
                found += await ctx.gather(ChildJob(job_id, "double"))
            except JobFailed as error:
                found.append(error.message)
        return found

    return app


def numbers(*values: object) -> list[Submission]:
    return [Submission("double", json.dumps(value)) for value in values]


def collecting(ids: Sequence[str]) -> Submission:
    return Submission("collect", json.dumps(list(ids)))


async def test_the_parent_gets_results_in_order(engine: Engine) -> None:
    [parent], _ = await engine.submit_family(numbers(1, -2, 3), collecting)
    async with working(engine):
        assert await result_of(engine, parent.id) == [2, "default has no -2", 6]


async def test_children_are_cancelled_with_their_parent(engine: Engine) -> None:
    [parent], _ = await engine.submit_family(numbers(1, 2), collecting)
    children = await engine.list_jobs(JobFilter(DEFAULT_TENANT, kind="double"))
    assert {job.terms.parent for job in children} == {parent.id}
    await engine.cancel(parent.id)
    children = await engine.list_jobs(JobFilter(DEFAULT_TENANT, kind="double"))
    assert {job.state for job in children} == {State.CANCELLED}


async def test_a_batch_of_children_is_submitted_all_or_none(engine: Engine) -> None:
    with pytest.raises(InvalidPayload):
        await engine.submit_family(numbers(1, "x"), collecting)
    assert await engine.list_jobs(JobFilter(DEFAULT_TENANT)) == []


async def test_children_under_an_idempotency_key_are_submitted_once(engine: Engine) -> None:
    first = await engine.submit_family(numbers(1, 2), collecting, IdempotencyKey("k", "same"))
    again = await engine.submit_family(numbers(1, 2), collecting, IdempotencyKey("k", "same"))
    assert (first.replayed, again.replayed) == (False, True)
    assert [job.id for job in again.jobs] == [job.id for job in first.jobs]
    assert len(await engine.list_jobs(JobFilter(DEFAULT_TENANT))) == 3
    with pytest.raises(KeyReused):
        await engine.submit_family(numbers(3), collecting, IdempotencyKey("k", "other"))
