"""Conformance tests for claims: which worker gets which job, and in which order."""

from __future__ import annotations

from coatcheck.model.job import Lease, Terms
from coatcheck.model.outcome import Errored, Released
from coatcheck.model.state import State
from coatcheck.store.base import ClaimResult, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    claimed_ids,
    job_of,
    new_job,
    reclaim,
    run_job,
    settle,
    states_of,
)


class ClaimConformance(Conformance):
    """Tests for `claim`."""

    async def test_a_claimed_job_runs(self, store: Store, worker: str) -> None:
        """A claimed job is running, and its worker holds the only lease."""
        job = new_job(input='{"to":"ada"}')
        await store.jobs.submit(job, NOW)
        [taken] = (await store.workers.claim(worker, ["mail"], 1, NOW + 7)).claims

        assert taken.lease == Lease(TENANT, job.id, 1)
        assert (taken.kind, taken.input, taken.attempt) == ("mail", '{"to":"ada"}', 1)
        found = await store.jobs.get(TENANT, job.id)
        assert (found.state, found.worker, found.attempt) == (State.RUNNING, worker, 1)
        assert (found.started_at, found.fence) == (NOW + 7, 1)
        assert await states_of(store, job.id) == ["queued", "running"]

    async def test_nothing_to_claim(self, store: Store, worker: str) -> None:
        """An empty store returns no claims and no next due time."""
        assert await store.workers.claim(worker, ["mail"], 10, NOW) == ClaimResult([], None)

    async def test_a_running_job_is_not_claimed_again(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """A running job is claimed neither by its own worker nor by another."""
        await run_job(store)
        assert await claim(store, worker=worker) == []
        assert await claim(store, worker=other_worker) == []

    async def test_higher_priority_first_then_older_first(self, store: Store, worker: str) -> None:
        """Higher priorities come first; jobs of equal priority are claimed in submission order."""
        jobs = [new_job(priority=priority) for priority in (0, 5, -2, 5, 0, 9)]
        for job in reversed(jobs):
            await store.jobs.submit(job, NOW)
        order = [jobs[n].id for n in (5, 1, 3, 0, 4, 2)]
        assert await claimed_ids(store, limit=4) == order[:4]
        assert await claimed_ids(store, limit=4) == order[4:]

    async def test_the_order_holds_across_kinds_and_queues(self, store: Store, worker: str) -> None:
        """Priority and age order jobs across all kinds and queues."""
        jobs = [
            new_job(kind, queue=queue, priority=priority)
            for priority in (1, 2)
            for queue in ("default", "slow", "alpha")
            for kind in ("mail", "chart")
        ]
        await store.jobs.submit_batch(jobs, NOW)
        expected = [job.id for job in sorted(jobs, key=lambda job: (-job.priority, job.id))]
        first = await claimed_ids(store, "mail", "chart", limit=5)
        second = await claimed_ids(store, "chart", "mail", limit=100)
        assert first + second == expected

    async def test_only_the_kinds_that_were_asked_for(self, store: Store, worker: str) -> None:
        """A worker gets only jobs of the kinds that it names."""
        mail, chart = new_job("mail"), new_job("chart")
        await store.jobs.submit_batch([mail, chart], NOW)
        assert await claimed_ids(store, "chart") == [chart.id]
        assert await claimed_ids(store, "mai", "mail2") == []
        assert (await store.workers.claim(worker, [], 10, NOW)).claims == []
        assert await claimed_ids(store, "mail") == [mail.id]

    async def test_a_kind_named_twice_counts_once(self, store: Store, worker: str) -> None:
        """A kind that is named twice does not return a job twice."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await claimed_ids(store, "mail", "mail") == [job.id]

    async def test_no_more_than_the_limit(self, store: Store, worker: str) -> None:
        """The limit applies to all kinds and queues together."""
        await store.jobs.submit_batch(
            [new_job(kind, queue=queue) for kind in ("mail", "chart") for queue in "abc"], NOW
        )
        assert len(await claim(store, "mail", "chart", limit=4)) == 4
        assert len(await claim(store, "mail", "chart", limit=0)) == 0
        assert len(await claim(store, "mail", "chart", limit=4)) == 2

    async def test_a_job_for_later_waits_until_it_is_due(self, store: Store, worker: str) -> None:
        """A delayed job is claimed exactly when it is due; until then, `next_due` is that time."""
        job = new_job(run_at=NOW + 1_000)
        await store.jobs.submit(job, NOW)
        assert await store.workers.claim(worker, ["mail"], 10, NOW) == ClaimResult([], NOW + 1_000)
        assert await store.workers.claim(worker, ["mail"], 10, NOW + 999) == ClaimResult(
            [], NOW + 1_000
        )
        taken = await store.workers.claim(worker, ["mail"], 10, NOW + 1_000)
        assert [one.lease.job_id for one in taken.claims] == [job.id]
        assert taken.next_due is None

    async def test_the_earliest_of_the_delayed_jobs_is_named(
        self, store: Store, worker: str
    ) -> None:
        """`next_due` is the earliest time among the jobs that are still delayed."""
        jobs = [new_job(run_at=NOW + delay) for delay in (300, 100, 200)]
        await store.jobs.submit_batch([new_job(), *jobs], NOW)
        taken = await store.workers.claim(worker, ["mail"], 10, NOW)
        assert (len(taken.claims), taken.next_due) == (1, NOW + 100)
        taken = await store.workers.claim(worker, ["mail"], 10, NOW + 200)
        assert [one.lease.job_id for one in taken.claims] == [jobs[1].id, jobs[2].id]
        assert taken.next_due == NOW + 300

    async def test_once_due_a_delayed_job_queues_like_any_other(
        self, store: Store, worker: str
    ) -> None:
        """A delayed job that is due is ordered by priority and age, not by its due time."""
        jobs = [
            new_job(run_at=NOW + 20, priority=1),
            new_job(run_at=NOW + 30),
            new_job(),
            new_job(run_at=NOW + 10),
        ]
        await store.jobs.submit_batch(jobs, NOW)
        order = [job.id for job in jobs]
        assert await claimed_ids(store, now=NOW + 50) == order

    async def test_a_job_past_its_deadline_is_not_started(self, store: Store, worker: str) -> None:
        """A job past its deadline is skipped even before a sweep fails it; later jobs are not."""
        late = new_job(terms=Terms(deadline_at=NOW + 10), priority=5)
        open_ended = new_job()
        await store.jobs.submit_batch([late, open_ended], NOW)
        assert await claimed_ids(store, limit=1, now=NOW + 10) == [open_ended.id]
        assert (await store.jobs.get(TENANT, late.id)).state is State.QUEUED

    async def test_a_job_before_its_deadline_is_started(self, store: Store, worker: str) -> None:
        """A job is claimed up to the last millisecond before its deadline."""
        job = new_job(terms=Terms(deadline_at=NOW + 10))
        await store.jobs.submit(job, NOW)
        assert await claimed_ids(store, now=NOW + 9) == [job.id]

    async def test_a_worker_nobody_registered_gets_nothing(self, store: Store) -> None:
        """An unregistered worker claims nothing, and the job stays queued."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await claim(store, worker="nobody") == []
        assert (await store.jobs.get(TENANT, job.id)).state is State.QUEUED

    async def test_a_worker_that_was_removed_gets_nothing(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """A worker that was removed as lost claims no new jobs."""
        await store.jobs.submit(new_job(), NOW)
        await store.workers.remove_worker(worker, None, NOW)
        assert await claim(store, worker=worker) == []
        assert len(await claim(store, worker=other_worker)) == 1

    async def test_every_claim_raises_the_fence(self, store: Store, worker: str) -> None:
        """Each claim has a higher fence than the one before, so stale leases can be recognized."""
        lease = await run_job(store, new_job(terms=Terms(max_attempts=10)))
        fences = [lease.fence]
        for n in range(4):
            outcome = Released() if n % 2 else Errored(BOOM, retry_after_ms=0)
            await settle(store, lease, outcome, NOW)
            lease = await reclaim(store, lease.job_id)
            fences.append(lease.fence)
        assert fences == sorted(set(fences))
        assert (await job_of(store, lease)).fence == fences[-1]

    async def test_a_claim_tells_what_the_last_attempt_left_behind(
        self, store: Store, worker: str
    ) -> None:
        """A job that runs again shows the error of its last attempt, but no reason."""
        lease = await run_job(store)
        await settle(store, lease, Errored(BOOM, retry_after_ms=0), NOW)
        again = await reclaim(store, lease.job_id, now=NOW + 5)
        job = await job_of(store, again)
        assert (job.reason, job.error, job.attempt) == (None, BOOM, 2)
        assert job.started_at == NOW + 5
