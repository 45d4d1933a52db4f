"""Conformance tests for the signals that wake subscribers, so they need not poll."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from coatcheck.model.job import Progress, Terms
from coatcheck.model.outcome import Errored, Released, Succeeded
from coatcheck.store.base import Report, Store, Topic
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    new_job,
    run_job,
    settle,
)

# Far longer than any wake-up takes; it only ends a test that would otherwise hang.
LONG = 30.0
# How long to wait for a signal that should not come.
SHORT = 0.05


async def wakes(store: Store, topic: Topic, deed: Coroutine[object, object, object]) -> bool:
    """Return whether awaiting `deed` wakes a subscriber of the topic."""
    signal = store.subscribe(topic)
    try:
        await deed
        return await signal.wait(LONG)
    finally:
        signal.close()


class WakeConformance(Conformance):
    """Tests for `subscribe`."""

    async def test_a_waiter_is_woken_by_a_submit(self, store: Store) -> None:
        """A submit wakes a worker that waits for work."""
        signal = store.subscribe(Topic.WORK)
        woken, _ = await asyncio.gather(signal.wait(LONG), store.jobs.submit(new_job(), NOW))
        assert woken is True
        signal.close()

    async def test_a_signal_that_comes_before_the_wait_is_not_lost(self, store: Store) -> None:
        """A signal sent between subscribing and waiting is not lost."""
        signal = store.subscribe(Topic.WORK)
        await store.jobs.submit(new_job(), NOW)
        assert await signal.wait(LONG) is True
        signal.close()

    async def test_without_a_limit_a_wait_lasts_until_it_is_woken(self, store: Store) -> None:
        """A wait without a timeout lasts until a signal arrives."""
        signal = store.subscribe(Topic.WORK)
        async with asyncio.timeout(LONG):
            woken, _ = await asyncio.gather(signal.wait(), store.jobs.submit(new_job(), NOW))
        assert woken is True
        signal.close()

    async def test_a_wait_may_run_out(self, store: Store) -> None:
        """A wait that times out returns False, and the signal can be waited for again."""
        signal = store.subscribe(Topic.WORK)
        while await signal.wait(SHORT):
            continue  # a store may wake once without cause when it starts to listen
        await store.jobs.submit(new_job(), NOW)
        assert await signal.wait(LONG) is True
        signal.close()

    async def test_wake_ups_that_nobody_waited_for_are_one(self, store: Store) -> None:
        """Several signals that arrive between two waits are merged."""
        signal = store.subscribe(Topic.WORK)
        for _ in range(20):
            await store.jobs.submit(new_job(), NOW)
        woken = 0
        while await signal.wait(SHORT if woken else LONG):
            woken += 1
        assert 1 <= woken < 20
        signal.close()

    async def test_everybody_who_waits_is_woken(self, store: Store) -> None:
        """Each subscriber gets its own signal."""
        signals = [store.subscribe(Topic.WORK) for _ in range(3)]
        await store.jobs.submit(new_job(), NOW)
        assert await asyncio.gather(*(signal.wait(LONG) for signal in signals)) == [True] * 3
        for signal in signals:
            signal.close()

    async def test_a_closed_signal_is_not_woken(self, store: Store) -> None:
        """Closing a signal does not affect other subscribers."""
        closed, other = store.subscribe(Topic.WORK), store.subscribe(Topic.WORK)
        closed.close()
        await store.jobs.submit(new_job(), NOW)
        assert await other.wait(LONG) is True
        assert await closed.wait(SHORT) is False
        other.close()

    async def test_work_is_told_of_delayed_jobs_too(self, store: Store) -> None:
        """Submitting a delayed job wakes the workers, because it changes the next due time."""
        assert await wakes(store, Topic.WORK, store.jobs.submit(new_job(run_at=NOW + 1_000), NOW))

    async def test_work_is_told_of_a_batch(self, store: Store) -> None:
        """Small and large batches wake the workers."""
        for size in (2, 1_050):
            jobs = [new_job() for _ in range(size)]
            assert await wakes(store, Topic.WORK, store.jobs.submit_batch(jobs, NOW))

    async def test_work_is_told_of_jobs_that_come_back(self, store: Store, worker: str) -> None:
        """A retry, a release and the removal of a worker wake the workers."""
        retried, released, _ = [await run_job(store) for _ in range(3)]
        again = settle(store, retried, Errored(BOOM, retry_after_ms=5), NOW)
        assert await wakes(store, Topic.WORK, again)
        assert await wakes(store, Topic.WORK, settle(store, released, Released(), NOW))
        assert await wakes(store, Topic.WORK, store.workers.remove_worker(worker, None, NOW))

    async def test_work_is_told_of_a_queue_that_opens(self, store: Store) -> None:
        """Resuming a paused queue wakes the workers."""
        await store.queues.pause_queue("default", True, NOW)
        assert await wakes(store, Topic.WORK, store.queues.pause_queue("default", False, NOW))

    async def test_a_cancel_wakes_those_who_run_jobs(self, store: Store, worker: str) -> None:
        """A cancel request wakes the worker that runs the job."""
        lease = await run_job(store)
        assert await wakes(store, Topic.CANCELS, store.jobs.cancel(TENANT, lease.job_id, NOW))

    async def test_changes_are_told_of_every_state_of_a_job(
        self, store: Store, worker: str
    ) -> None:
        """Claims, cancel requests and settlements wake the subscribers to changes."""
        await store.jobs.submit(new_job(public_id="r_42"), NOW)
        signal = store.subscribe(Topic.CHANGES)
        [taken] = await claim(store)
        assert await signal.wait(LONG) is True
        signal.close()
        lease = taken.lease
        assert await wakes(store, Topic.CHANGES, store.jobs.cancel(TENANT, "r_42", NOW))
        assert await wakes(store, Topic.CHANGES, settle(store, lease, Succeeded("1"), NOW))

    async def test_reports_are_told(self, store: Store, worker: str) -> None:
        """A report wakes the subscribers to reports."""
        lease = await run_job(store, new_job())
        assert await wakes(
            store, Topic.REPORTS, store.workers.report(lease, Report(Progress(1)), NOW)
        )

    async def test_changes_are_told_of_jobs_that_end_without_a_worker(
        self, store: Store, worker: str
    ) -> None:
        """Lost, cancelled and expired jobs wake the subscribers to changes."""
        await run_job(store, new_job(terms=Terms(on_lost="fail")))
        assert await wakes(store, Topic.CHANGES, store.workers.remove_worker(worker, None, NOW))
        job, late = new_job(), new_job(terms=Terms(deadline_at=NOW + 1))
        await store.jobs.submit_batch([job, late], NOW)
        assert await wakes(store, Topic.CHANGES, store.jobs.cancel(TENANT, job.id, NOW))
        assert await wakes(store, Topic.CHANGES, store.maintenance.sweep(NOW + 1))
