"""Conformance tests for settling several attempts in one call, each with a final report."""

from __future__ import annotations

import json

from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Lease, Progress
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.state import State
from coatcheck.store.base import HeldJob, Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    OTHER_WORKER,
    TENANT,
    Conformance,
    job_of,
    new_id,
    reclaim,
    run_job,
    settle,
)

LAST_WORDS = Report(Progress(9, 10), "closing", (NewJobEvent(EventType.LOG, '{"message":"bye"}'),))


class SettleManyConformance(Conformance):
    """Tests for `settle` with several settlements or with reports, and for `list_held_jobs`."""

    async def test_several_attempts_end_with_one_call(self, store: Store, worker: str) -> None:
        """Each settlement has its own outcome, and results are returned in the order given."""
        leases = [await run_job(store) for _ in range(4)]
        outcomes: list[Outcome] = [Succeeded("1"), GaveUp(BOOM), Errored(BOOM, 500), Released(500)]
        pairs = zip(leases, outcomes, strict=True)
        answers = await store.workers.settle([Settlement(*pair) for pair in pairs], NOW)
        assert answers == [True] * 4
        states = [(await job_of(store, lease)).state for lease in leases]
        assert states == ["succeeded", "failed", "queued", "queued"]

    async def test_nothing_to_settle(self, store: Store) -> None:
        """Settling nothing returns an empty list."""
        assert await store.workers.settle([], NOW) == []

    async def test_a_stale_one_does_not_stop_the_others(self, store: Store, worker: str) -> None:
        """A stale settlement does not affect the others in the same call."""
        good, settled, stale = [await run_job(store) for _ in range(3)]
        await settle(store, settled, Succeeded('"first"'), NOW)
        await settle(store, stale, Released(), NOW)
        current = await reclaim(store, stale.job_id)
        leases = [stale, settled, Lease(TENANT, new_id(), 1), good]
        answers = await store.workers.settle(
            [Settlement(one, Succeeded('"x"')) for one in leases], NOW
        )

        assert answers == [False, True, False, True]
        assert (await job_of(store, good)).result == '"x"'
        assert (await job_of(store, settled)).result == '"first"'
        assert (await job_of(store, current)).state is State.RUNNING
        assert (await store.maintenance.read_counters())["stale_writes"] == 2

    async def test_of_two_settlements_of_one_lease_the_first_counts(
        self, store: Store, worker: str
    ) -> None:
        """Only the first of two settlements of one lease in a call takes effect."""
        lease = await run_job(store)
        pair = [Settlement(lease, Succeeded('"a"')), Settlement(lease, GaveUp(BOOM), LAST_WORDS)]
        assert await store.workers.settle(pair, NOW) == [True, True]
        job = await job_of(store, lease)
        assert (job.state, job.result, job.last_event) == (State.SUCCEEDED, '"a"', 3)

    async def test_last_words_come_before_the_end(self, store: Store, worker: str) -> None:
        """A final report is logged before the final state, which stays the last event."""
        lease = await run_job(store)
        await store.workers.settle([Settlement(lease, Succeeded("1"), LAST_WORDS)], NOW + 5)
        job = await job_of(store, lease)
        assert (job.state, job.progress, job.phase) == (State.SUCCEEDED, Progress(9, 10), None)
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [event.seq for event in log] == [3, 4, 5]
        assert {event.type for event in log[:2]} == {EventType.LOG, EventType.PROGRESS}
        assert json.loads(log[2].data)["state"] == "succeeded"
        assert {event.at for event in log} == {NOW + 5}
        assert job.last_event == 5

    async def test_last_words_of_an_attempt_that_is_repeated_stay_in_the_log_only(
        self, store: Store, worker: str
    ) -> None:
        """After a retry, a final report remains in the log but not in the job's progress."""
        lease = await run_job(store)
        await store.workers.settle([Settlement(lease, Errored(BOOM, 500), LAST_WORDS)], NOW)
        job = await job_of(store, lease)
        assert (job.state, job.progress, job.phase) == (State.QUEUED, None, None)
        assert job.last_event == len(await store.jobs.list_events(TENANT, lease.job_id, 0, 10)) == 5

    async def test_last_words_without_a_right_to_them_are_not_heard(
        self, store: Store, worker: str
    ) -> None:
        """A final report with a stale lease, or after the job has finished, is discarded."""
        stale, ended = await run_job(store), await run_job(store)
        await settle(store, ended, Succeeded("1"), NOW)
        await settle(store, stale, Released(), NOW)
        current = await reclaim(store, stale.job_id)
        before = [await job_of(store, lease) for lease in (current, ended)]
        late = [Settlement(lease, Succeeded("2"), LAST_WORDS) for lease in (stale, ended)]
        assert await store.workers.settle(late, NOW + 1) == [False, True]
        assert [await job_of(store, lease) for lease in (current, ended)] == before
        for job in before:
            assert len(await store.jobs.list_events(TENANT, job.id, 0, 100)) == job.last_event

    async def test_a_worker_finds_out_what_it_holds(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """`list_held_jobs` returns a worker's leases, even if a claim's response was lost."""
        mine = [await run_job(store) for _ in range(3)]
        theirs = await run_job(store, worker=OTHER_WORKER)
        await settle(store, mine[0], Released(), NOW)
        again = await reclaim(store, mine[0].job_id)
        await settle(store, mine[1], Succeeded("1"), NOW)
        await store.jobs.cancel(TENANT, mine[2].job_id, NOW)
        assert set(await store.workers.list_held_jobs(worker)) == {
            HeldJob(again, False),
            HeldJob(mine[2], True),
        }
        assert await store.workers.list_held_jobs(other_worker) == [HeldJob(theirs, False)]
        assert await store.workers.list_held_jobs("nobody") == []

        await store.workers.remove_worker(worker, None, NOW)
        assert await store.workers.list_held_jobs(worker) == []
