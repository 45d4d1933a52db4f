"""The usage of tenants matches the jobs' own logs exactly, while workers are killed."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.event import EventType
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.model.state import State
from coatcheck.model.usage import Usage, bytes_of, hour_of
from coatcheck.store.base import JobFilter, Store
from coatcheck.testing.checker import Submit
from coatcheck.worker.failpoints import CHECKPOINTS

from .api_kills import kill_apis
from .kills import STRIKES, kill_one
from .launcher import Launcher
from .place import Place
from .stage import PLAIN, STEPPING, Stage

pytestmark = pytest.mark.anyio

KILLS = 10


async def used_by(store: Store, job: Job) -> list[Usage]:
    """Say what a job has used, by its own log."""
    size = bytes_of(await store.jobs.get_input(job.tenant, job.id))
    used = [Usage(job.tenant, job.kind, hour_of(job.created_at), submitted=1, input_bytes=size)]
    began: int | None = None
    for event in await store.jobs.list_events(job.tenant, job.id, 0, 10_000):
        if event.type is not EventType.STATE:
            continue
        state = State(json.loads(event.data)["state"])
        ends = {state.value: 1} if state.is_terminal else {}
        runs = {} if began is None else {"runs": 1, "run_ms": event.at - began}
        if ends or runs:
            used.append(Usage(job.tenant, job.kind, hour_of(event.at), **runs, **ends))
        began = event.at if state is State.RUNNING else None
    return used


def added_up(used: Sequence[Usage]) -> dict[tuple[str, str, int], Usage]:
    """Add up what belongs together."""
    total: dict[tuple[str, str, int], Usage] = {}
    for each in used:
        there = total.get(each[:3])
        total[each[:3]] = each if there is None else there.plus(each)
    return total


async def all_jobs(store: Store) -> list[Job]:
    return await store.jobs.list_jobs(JobFilter(DEFAULT_TENANT, limit=10_000))


async def check_usage(store: Store) -> None:
    """Compare what was counted with what the logs say."""
    told = [each for job in await all_jobs(store) for each in await used_by(store, job)]
    counted = await store.access.list_usage(DEFAULT_TENANT, 0, 2**42)
    assert added_up(counted) == added_up(told)


async def test_usage_is_exact_while_workers_are_killed(  # G37
    place: Place, launcher: Launcher, seed: int
) -> None:
    stage = Stage("usage", place, launcher, seed)
    async with stage.open():
        for number in range(3):  # repeated under its key it is one, and counted once
            for _ in range(2):
                once = IdempotencyKey(f"key-{number}", "the same")
                asked = Submission("quick", str(number), labels={"key": once.key})
                answer = await stage.engine.submit_idempotent(asked, once)
                stage.submits.append(Submit(answer.jobs[0].id, key=once.key))
        cancelled = await stage.engine.submit(Submission("quick", "1", run_at=2**42))
        await stage.engine.cancel(cancelled.id)
        stage.submits.append(Submit(cancelled.id))
        points = [*STRIKES, *CHECKPOINTS] * 2
        for point in points[:KILLS]:
            kinds = STEPPING if point in CHECKPOINTS else PLAIN
            await kill_one(stage, point, kinds, passes=2)
        workers = [await stage.started(), await stage.started()]
        await stage.all_ended()
        for job in await all_jobs(stage.store):
            await stage.engine.wait(job.id, 60)
        await stage.terminate(*workers)
        assert any(job.fence > 1 for job in await all_jobs(stage.store)), "nobody was struck"
        await check_usage(stage.store)
        tally = await stage.check(key_label="key")
        assert tally.violations == []


async def test_usage_is_exact_while_the_api_is_killed_before_it_responds(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await kill_apis(place, launcher, kills=4, seed=seed)
    assert tally.violations == []
    store = place.store()
    await store.open()
    try:
        assert len(await all_jobs(store)) == 4
        await check_usage(store)
    finally:
        await store.close()
