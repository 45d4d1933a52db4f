"""Conformance tests for jobs that wait for a time, and for the events that end a wait early."""

from __future__ import annotations

from coatcheck.model.job import Progress, Terms
from coatcheck.model.outcome import Errored, Succeeded, Waiting
from coatcheck.model.state import Reason, State
from coatcheck.store.base import Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    job_of,
    new_job,
    new_step,
    reclaim,
    run_job,
    settle,
    spawn,
    states_of,
)


class WaitConformance(Conformance):
    """Tests for `settle` with `Waiting`, and for cancels, deadlines and lost workers meanwhile."""

    async def test_a_job_that_waits_holds_nobody(self, store: Store, worker: str) -> None:
        """A waiting job has no worker and is not claimed before its time."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(Progress(1, 2), "half"), NOW)
        assert await settle(store, lease, Waiting(NOW + 100), NOW + 1)
        job = await job_of(store, lease)
        assert (job.state, job.reason, job.worker) == (State.WAITING, Reason.WAITING, None)
        assert (job.run_at, job.attempt, job.fence) == (NOW + 100, 1, lease.fence)
        assert (job.finished_at, job.expires_at, job.phase) == (None, None, None)
        assert await store.workers.list_held_jobs(worker) == []
        assert await claim(store, now=NOW + 99) == []
        assert (await job_of(store, lease)).state is State.WAITING

    async def test_what_it_said_of_its_progress_stays(self, store: Store, worker: str) -> None:
        """A waiting job keeps its progress; a new attempt resets it."""
        lease = await run_job(store)
        await store.workers.report(lease, Report(Progress(1, 2)), NOW)
        await settle(store, lease, Waiting(NOW + 100), NOW + 1)
        lease = await reclaim(store, lease.job_id, now=NOW + 100)
        assert (await job_of(store, lease)).progress == Progress(1, 2)
        await settle(store, lease, Errored(BOOM, 0), NOW + 101)
        assert (await job_of(store, lease)).progress is None

    async def test_it_goes_on_in_its_time_with_the_same_attempt(
        self, store: Store, worker: str
    ) -> None:
        """A claim of a woken job raises the fence but not the attempt."""
        lease = await run_job(store)
        for round_ in range(1, 4):
            now = NOW + 100 * round_
            await settle(store, lease, Waiting(now), NOW + 1)
            [again] = await claim(store, now=now)
            assert (again.attempt, again.lease.fence) == (1, lease.fence + 1)
            assert again.input == '{"n":1}'
            lease = again.lease
        assert await settle(store, lease, Errored(BOOM, 0), NOW + 900)
        assert (await claim(store, now=NOW + 900))[0].attempt == 2
        assert (await states_of(store, lease.job_id))[:6] == [
            *("queued", "running", "waiting", "queued", "running", "waiting")
        ]

    async def test_a_claim_says_when_the_next_goes_on(self, store: Store, worker: str) -> None:
        """`next_due` covers waiting and delayed jobs, except jobs that wait without a time."""
        first = await run_job(store)
        await settle(store, first, Waiting())
        assert (await store.workers.claim(worker, ("mail",), 1, NOW)).next_due is None
        second = await run_job(store)
        await settle(store, second, Waiting(NOW + 50))
        assert (await store.workers.claim(worker, ("mail",), 1, NOW)).next_due == NOW + 50
        await store.jobs.submit(new_job(run_at=NOW + 40), NOW)
        assert (await store.workers.claim(worker, ("mail",), 1, NOW)).next_due == NOW + 40
        assert len(await claim(store, now=NOW + 40)) == 1
        assert (await store.workers.claim(worker, ("mail",), 1, NOW + 40)).next_due == NOW + 50

    async def test_what_it_did_is_written_with_its_waiting(self, store: Store, worker: str) -> None:
        """Steps are written together with the wait."""
        lease = await run_job(store)
        waits = Settlement(lease, Waiting(NOW + 9), Report(steps=(new_step(),)))
        assert await store.workers.settle([waits], NOW) == [True]
        assert await store.workers.settle([waits], NOW) == [True], "its answer never came"
        assert await store.jobs.list_steps(TENANT, lease.job_id) == [new_step()]
        log = await store.jobs.list_events(TENANT, lease.job_id, 2, 10)
        assert [event.type for event in log] == ["step", "state"]

    async def test_a_lease_is_over_when_its_job_waits(self, store: Store, worker: str) -> None:
        """The lease of a waiting job cannot write."""
        lease = await run_job(store)
        await settle(store, lease, Waiting(NOW + 9))
        before = await job_of(store, lease)
        assert not await store.workers.report(lease, Report(steps=(new_step(),)), NOW)
        await store.workers.remove_worker(worker, None, NOW)
        assert await job_of(store, lease) == before
        assert await store.jobs.list_steps(TENANT, lease.job_id) == []

    async def test_a_prefetched_job_is_cancelled_at_once(self, store: Store, worker: str) -> None:
        """A waiting job is cancelled immediately and does not wake again."""
        lease = await run_job(store)
        await settle(store, lease, Waiting(NOW + 9, (("event:0:go",),)))
        job = await store.jobs.cancel(TENANT, lease.job_id, NOW + 1)
        assert (job.state, job.reason, job.finished_at) == (
            State.CANCELLED,
            Reason.CANCELLED,
            NOW + 1,
        )
        assert await claim(store, now=NOW + 10) == []
        assert (await job_of(store, lease)) == job

    async def test_one_that_was_asked_to_stop_does_not_wait(
        self, store: Store, worker: str
    ) -> None:
        """A job with a cancel request that settles as waiting is cancelled with its children."""
        lease = await run_job(store)
        [child] = await spawn(store, lease)
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert await settle(store, lease, Waiting(NOW + 9))
        assert (await job_of(store, lease)).state is State.CANCELLED
        assert (await store.jobs.get(TENANT, child.id)).state is State.CANCELLED

    async def test_its_deadline_passes_while_it_waits(self, store: Store, worker: str) -> None:
        """A sweep fails a waiting job past its deadline, even if its wait is over."""
        terms = Terms(deadline_at=NOW + 50)
        for until in (NOW + 100, NOW + 40):
            lease = await run_job(store, new_job(terms=terms))
            await settle(store, lease, Waiting(until))
            assert await claim(store, now=NOW + 50) == []
            assert (await store.maintenance.sweep(NOW + 50)).expired == 1
            job = await job_of(store, lease)
            assert (job.state, job.reason) == (State.FAILED, Reason.EXPIRED)
            assert await claim(store, now=NOW + 200) == []

    async def test_a_paused_queue_holds_those_that_wake(self, store: Store, worker: str) -> None:
        """A woken job stays in a paused queue and is ordered by its age."""
        lease = await run_job(store)
        await settle(store, lease, Waiting(NOW + 5))
        await store.queues.pause_queue("default", True, NOW)
        assert await claim(store, now=NOW + 5) == []
        await store.queues.pause_queue("default", False, NOW)
        younger = new_job()
        await store.jobs.submit(younger, NOW + 5)
        found = await claim(store, now=NOW + 5)
        assert [each.lease.job_id for each in found] == [lease.job_id, younger.id]

    async def test_many_wake_at_once(self, store: Store, worker: str) -> None:
        """One claim wakes every job whose time has come."""
        leases = [await run_job(store) for _ in range(30)]
        await store.workers.settle([Settlement(lease, Waiting(NOW + 5)) for lease in leases], NOW)
        woken = await claim(store, now=NOW + 5, limit=100)
        assert {each.lease.job_id for each in woken} == {lease.job_id for lease in leases}
        assert await store.workers.settle(
            [Settlement(each.lease, Succeeded("1")) for each in woken], NOW
        ) == [True] * len(leases)

    async def test_the_next_attempt_begins_where_it_is_woken(
        self, store: Store, worker: str
    ) -> None:
        """A job whose worker is lost after a wait has used one attempt, not two."""
        lease = await run_job(store, new_job(terms=Terms(max_attempts=2)))
        await settle(store, lease, Waiting(NOW + 5))
        await claim(store, now=NOW + 5)
        await store.workers.remove_worker(worker, None, NOW + 6)
        job = await job_of(store, lease)
        assert (job.state, job.attempt, job.reason) == (State.QUEUED, 1, Reason.LOST)
        assert job.fence == lease.fence + 2

    async def test_one_whose_time_has_come_already_goes_on_at_once(
        self, store: Store, worker: str
    ) -> None:
        """A job that waits for a time in the past can be claimed immediately."""
        lease = await run_job(store)
        await settle(store, lease, Waiting(NOW))
        again = await reclaim(store, lease.job_id)
        assert await settle(store, again, Succeeded("2"))
        assert (await job_of(store, again)).result == "2"
