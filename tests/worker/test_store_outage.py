"""A store that is unavailable for a while: no outcome is lost, and nothing needs a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import StoreUnavailable
from coatcheck.model.state import State
from coatcheck.store.base import Store
from coatcheck.worker.store_retry import StorePoll
from tests.store_proxy import StoreProxy

from .conftest import SETTINGS, working

pytestmark = pytest.mark.anyio


class Unreliable(StoreProxy):
    """The real store behind a switch: while it is down, every verb in `verbs` fails."""

    def __init__(self, store: Store, *verbs: str) -> None:
        super().__init__(store)
        self._verbs = verbs
        self.down = False
        self.refused = asyncio.Event()

    def wrap(self, name: str, verb: Any) -> Any:
        if name not in self._verbs:
            return verb

        async def guarded(*arguments: Any, **options: Any) -> Any:
            if self.down:
                self.refused.set()
                raise StoreUnavailable("switched off")
            return await verb(*arguments, **options)

        return guarded


# G23: retried until it succeeds, not just three times.
async def test_a_finished_job_is_settled_once_the_store_is_available(
    app: App, store: Store
) -> None:
    unreliable = Unreliable(store, "settle", "report", "heartbeat", "claim")
    engine = Engine(unreliable, app.kinds)
    runs = []

    @app.job
    async def once(ctx: Context) -> str:
        runs.append(ctx.attempt)
        unreliable.down = True
        await ctx.progress(1, 1, "said while the store was down")
        return "kept"

    async with working(engine):
        job = await engine.submit(Submission("once"))
        await unreliable.refused.wait()
        assert (await engine.get(job.id)).state is State.RUNNING
        unreliable.down = False
        ended = await engine.wait(job.id, 30)
    assert (ended.state, ended.result, runs) == (State.SUCCEEDED, '"kept"', [1])
    assert ended.progress is not None
    assert ended.progress.message == "said while the store was down"


async def test_claiming_continues_once_the_store_is_available(app: App, store: Store) -> None:
    unreliable = Unreliable(store, "claim")
    engine = Engine(unreliable, app.kinds)

    @app.job
    async def quick(ctx: Context) -> None: ...

    unreliable.down = True
    job = await engine.submit(Submission("quick"))
    async with working(engine):
        await unreliable.refused.wait()
        unreliable.down = False
        assert (await engine.wait(job.id, 30)).state is State.SUCCEEDED


async def test_a_worker_can_start_while_the_store_is_unavailable(app: App, store: Store) -> None:
    unreliable = Unreliable(store, "register_worker")
    engine = Engine(unreliable, app.kinds)

    @app.job
    async def quick(ctx: Context) -> None: ...

    async def mend() -> None:
        await unreliable.refused.wait()
        unreliable.down = False

    unreliable.down = True
    mending = asyncio.create_task(mend())
    async with working(engine):
        job = await engine.submit(Submission("quick"))
        assert (await engine.wait(job.id, 30)).state is State.SUCCEEDED
    await mending


async def test_a_worker_that_reregisters_before_a_claim_keeps_its_jobs(
    app: App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is declared lost while it lists its jobs, so the claim belongs to the new registration."""

    @app.job
    async def note(ctx: Context) -> int:
        return 1

    async with working(engine) as worker:
        held_by, claim = engine.store.workers.list_held_jobs, engine.store.workers.claim
        known_as = worker.id
        unanswered = iter([True])

        async def lost_meanwhile(worker_id: str) -> Any:
            found = await held_by(worker_id)
            if worker.id == known_as:
                worker._abandon_leases()
                await worker._heartbeat.register()
            return found

        async def claim_unanswered_at_first(*arguments: Any) -> Any:
            if next(unanswered, False):
                raise StoreUnavailable("switched off")
            return await claim(*arguments)

        monkeypatch.setattr(engine.store.workers, "list_held_jobs", lost_meanwhile)
        monkeypatch.setattr(engine.store.workers, "claim", claim_unanswered_at_first)
        job = await engine.submit(Submission("note"))
        assert (await engine.wait(job.id, 10)).state is State.SUCCEEDED
        assert worker.id != known_as


def test_the_poll_interval_grows_with_failures_and_shrinks_with_successes() -> None:  # G16, G17
    poll = StorePoll(1.0, 30.0)
    seen = []
    for _ in range(6):
        poll.record_failure()
        seen.append(poll.interval_s)
    assert seen == [2, 4, 8, 16, 30, 30]
    poll.record_success()
    poll.record_success()
    poll.record_failure()  # counting starts again
    for _ in range(5):
        poll.record_success()
    assert poll.interval_s == 15
    for _ in range(30):
        poll.record_success()
    assert poll.interval_s == 1


async def test_a_worker_polls_less_often_while_the_store_fails(  # G17
    app: App, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    unreliable = Unreliable(store, "claim")
    unreliable.down = True
    engine = Engine(unreliable, app.kinds)

    @app.job
    async def noop(ctx: Context) -> None:
        pass

    job = await engine.submit(Submission("noop"))
    often = replace(SETTINGS, poll_s=0.01, longest_poll_s=0.04)
    async with working(engine, often), asyncio.timeout(60):
        while len(paused(caplog)) < 5:
            unreliable.refused.clear()
            await unreliable.refused.wait()
        unreliable.down = False
        await engine.wait(job.id, 60)
    assert paused(caplog)[:5] == [0.01, 0.02, 0.04, 0.04, 0.04]
    await engine.metrics.flush()
    counted = await store.maintenance.read_counters()  # G35
    looks = counted['worker_polls{outcome="failed"}']
    assert counted['worker_poll_interval_count{outcome="failed"}'] == looks >= 5
    assert counted['worker_poll_interval_ms{outcome="failed"}'] == 10 + 20 + 40 * (looks - 2)


def paused(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [
        getattr(each, "pause_s", 0.0)
        for each in caplog.records
        if "store unavailable" in each.message
    ]
