"""Taking work: who gets which job, and in which order."""

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
    """`claim`."""

    async def test_a_claimed_job_runs(self, store: Store, worker: str) -> None:
        """A worker takes a job and holds the only lease to it."""
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
        """An empty store gives nothing and knows of nothing to come."""
        assert await store.workers.claim(worker, ["mail"], 10, NOW) == ClaimResult([], None)

    async def test_a_running_job_is_not_claimed_again(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """A job has one holder."""
        await run_job(store)
        assert await claim(store, worker=worker) == []
        assert await claim(store, worker=other_worker) == []

    async def test_higher_priority_first_then_older_first(self, store: Store, worker: str) -> None:
        """Priority beats age; within one priority the order of submission holds."""
        jobs = [new_job(priority=priority) for priority in (0, 5, -2, 5, 0, 9)]
        for job in reversed(jobs):
            await store.jobs.submit(job, NOW)
        order = [jobs[n].id for n in (5, 1, 3, 0, 4, 2)]
        assert await claimed_ids(store, limit=4) == order[:4]
        assert await claimed_ids(store, limit=4) == order[4:]

    async def test_the_order_holds_across_kinds_and_queues(self, store: Store, worker: str) -> None:
        """There is one line, however the jobs in it are sorted otherwise."""
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
        """A worker never gets a job it cannot run."""
        mail, chart = new_job("mail"), new_job("chart")
        await store.jobs.submit_batch([mail, chart], NOW)
        assert await claimed_ids(store, "chart") == [chart.id]
        assert await claimed_ids(store, "mai", "mail2") == []
        assert (await store.workers.claim(worker, [], 10, NOW)).claims == []
        assert await claimed_ids(store, "mail") == [mail.id]

    async def test_a_kind_named_twice_counts_once(self, store: Store, worker: str) -> None:
        """Each job is claimed once, however the question is put."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await claimed_ids(store, "mail", "mail") == [job.id]

    async def test_no_more_than_the_limit(self, store: Store, worker: str) -> None:
        """The limit holds over all kinds and queues together."""
        await store.jobs.submit_batch(
            [new_job(kind, queue=queue) for kind in ("mail", "chart") for queue in "abc"], NOW
        )
        assert len(await claim(store, "mail", "chart", limit=4)) == 4
        assert len(await claim(store, "mail", "chart", limit=0)) == 0
        assert len(await claim(store, "mail", "chart", limit=4)) == 2

    async def test_a_job_for_later_waits_until_it_is_due(self, store: Store, worker: str) -> None:
        """Not a millisecond early, and the worker is told when to come back."""
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
        """`next_due` moves on as jobs become due."""
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
        """Priority and age count, not the time it became due."""
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
        """Also before a sweep has failed it; what comes after it in line is."""
        late = new_job(terms=Terms(deadline_at=NOW + 10), priority=5)
        open_ended = new_job()
        await store.jobs.submit_batch([late, open_ended], NOW)
        assert await claimed_ids(store, limit=1, now=NOW + 10) == [open_ended.id]
        assert (await store.jobs.get(TENANT, late.id)).state is State.QUEUED

    async def test_a_job_before_its_deadline_is_started(self, store: Store, worker: str) -> None:
        """The last millisecond counts."""
        job = new_job(terms=Terms(deadline_at=NOW + 10))
        await store.jobs.submit(job, NOW)
        assert await claimed_ids(store, now=NOW + 9) == [job.id]

    async def test_a_worker_nobody_registered_gets_nothing(self, store: Store) -> None:
        """And the job stays for those that are."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await claim(store, worker="nobody") == []
        assert (await store.jobs.get(TENANT, job.id)).state is State.QUEUED

    async def test_a_worker_that_was_removed_gets_nothing(
        self, store: Store, worker: str, other_worker: str
    ) -> None:
        """A worker that was called lost must not begin anything new."""
        await store.jobs.submit(new_job(), NOW)
        await store.workers.remove_worker(worker, None, NOW)
        assert await claim(store, worker=worker) == []
        assert len(await claim(store, worker=other_worker)) == 1

    async def test_every_claim_raises_the_fence(self, store: Store, worker: str) -> None:
        """So that whoever held the job before can be told from who holds it now."""
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
        """While it runs again, a job still shows the error of its last attempt, not its reason."""
        lease = await run_job(store)
        await settle(store, lease, Errored(BOOM, retry_after_ms=0), NOW)
        again = await reclaim(store, lease.job_id, now=NOW + 5)
        job = await job_of(store, again)
        assert (job.reason, job.error, job.attempt) == (None, BOOM, 2)
        assert job.started_at == NOW + 5
