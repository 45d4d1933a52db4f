"""Conformance tests for the sweep: deadlines and retention."""

from __future__ import annotations

import pytest

from coatcheck.errors import Gone, NotFound
from coatcheck.model.job import JobInsert, Terms
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.record import Record
from coatcheck.model.state import Reason, State
from coatcheck.model.transition import OVERRUN_MS
from coatcheck.store.base import Report, Store, SweepResult
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    everything,
    job_of,
    new_job,
    run_job,
    settle,
    states_of,
)

DAY = 86_400_000
FOREVER = NOW + 1_000 * DAY


class SweepConformance(Conformance):
    """Tests for `sweep`."""

    async def test_a_job_past_its_deadline_fails(self, store: Store, worker: str) -> None:
        """A queued job past its deadline fails with the reason `expired`."""
        job = new_job(terms=Terms(deadline_at=NOW + 100, keep_failed_ms=50))
        await store.jobs.submit(job, NOW)
        assert (await store.maintenance.sweep(NOW + 99)).expired == 0
        assert (await store.jobs.get(TENANT, job.id)).state is State.QUEUED

        assert (await store.maintenance.sweep(NOW + 100)).expired == 1
        found = await store.jobs.get(TENANT, job.id)
        assert (found.state, found.reason) == (State.FAILED, Reason.EXPIRED)
        assert (found.finished_at, found.expires_at) == (NOW + 100, NOW + 150)
        assert found.error is not None
        assert found.error.code == "expired"
        assert await states_of(store, job.id) == ["queued", "failed"]

    async def test_a_delayed_job_past_its_deadline_fails(self, store: Store, worker: str) -> None:
        """A delayed job past its deadline fails and is no longer due."""
        job = new_job(run_at=NOW + 1_000, terms=Terms(deadline_at=NOW + 100))
        await store.jobs.submit(job, NOW)
        assert (await store.maintenance.sweep(NOW + 200)).expired == 1
        late = await store.workers.claim(worker, ["mail"], 10, NOW + 2_000)
        assert (late.claims, late.next_due) == ([], None)

    async def test_a_running_job_is_left_to_its_worker_at_first(
        self, store: Store, worker: str
    ) -> None:
        """A running job past its deadline is left to its worker for `OVERRUN_MS`.

        A running job without a deadline is never failed by a sweep.
        """
        lease = await run_job(store, new_job(terms=Terms(deadline_at=NOW + 100)))
        other = await run_job(store)
        assert await store.maintenance.sweep(NOW + 100 + OVERRUN_MS - 1) == SweepResult()
        assert await settle(store, lease, GaveUp(BOOM), NOW + 100 + OVERRUN_MS - 1)
        await store.maintenance.sweep(FOREVER)
        assert (await job_of(store, other)).state is State.RUNNING

    async def test_a_job_whose_worker_does_not_end_it_is_taken_away(
        self, store: Store, worker: str
    ) -> None:
        """A job that overran its deadline by `OVERRUN_MS` fails, and its lease becomes stale."""
        job = new_job(terms=Terms(deadline_at=NOW + 100, keep_failed_ms=50))
        lease = await run_job(store, job)
        late = NOW + 100 + OVERRUN_MS
        assert (await store.maintenance.sweep(late)).expired == 1
        found = await store.jobs.get(TENANT, job.id)
        assert (found.state, found.reason) == (State.FAILED, Reason.TIMEOUT)
        assert (found.finished_at, found.expires_at) == (late, late + 50)
        assert found.error is not None
        assert found.error.code == "timeout"
        assert found.fence > lease.fence
        assert not await settle(store, lease, Succeeded("1"), late)
        assert not await store.workers.report(lease, Report(phase="on"), late)
        assert (await store.jobs.get(TENANT, job.id)) == found
        assert await store.workers.list_held_jobs(worker) == []
        assert await states_of(store, job.id) == ["queued", "running", "failed"]

    async def test_one_that_was_to_be_cancelled_is_cancelled(
        self, store: Store, worker: str
    ) -> None:
        """A job that overran its deadline and has a cancel request is cancelled."""
        lease = await run_job(store, new_job(terms=Terms(deadline_at=NOW + 100)))
        await store.jobs.cancel(TENANT, lease.job_id, NOW)
        assert (await store.maintenance.sweep(FOREVER)).expired == 1
        assert (await job_of(store, lease)).state is State.CANCELLED

    async def test_what_retention_has_passed_over_is_gone(self, store: Store, worker: str) -> None:
        """A sweep deletes an expired job with its events and payloads, and leaves a tombstone."""
        job = new_job(public_id="r_42", terms=Terms(keep_succeeded_ms=1_000))
        lease = await run_job(store, job)
        await settle(store, lease, Succeeded('"secret"'), NOW)
        assert (await store.maintenance.sweep(NOW + 999)).deleted == 0
        assert (await job_of(store, lease)).result == '"secret"'

        assert (await store.maintenance.sweep(NOW + 1_000)).deleted == 1
        with pytest.raises(Gone):
            await store.jobs.get(TENANT, job.id)
        with pytest.raises(NotFound):
            await store.jobs.get(TENANT, "r_42")
        assert await store.jobs.list_events(TENANT, job.id, 0, 100) == []
        assert await store.jobs.get_many([(TENANT, job.id)]) == []
        assert await everything(store) == []
        assert await store.queues.list_queues() == []

    async def test_only_its_own_tenant_learns_that_a_job_is_gone(
        self, store: Store, worker: str
    ) -> None:
        """Other tenants get `NotFound` for a deleted job, not `Gone`."""
        job = new_job(tenant="acme", terms=Terms(keep_failed_ms=1))
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel("acme", job.id, NOW)
        await store.maintenance.sweep(NOW + 1)
        with pytest.raises(NotFound) as caught:
            await store.jobs.get("umbrella", job.id)
        assert not isinstance(caught.value, Gone)

    async def test_that_a_job_existed_is_known_for_seven_days(
        self, store: Store, worker: str
    ) -> None:
        """A tombstone is deleted after seven days."""
        job = new_job(terms=Terms(keep_failed_ms=1))
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel(TENANT, job.id, NOW)
        await store.maintenance.sweep(NOW + 1)
        await store.maintenance.sweep(NOW + 7 * DAY)
        with pytest.raises(Gone):
            await store.jobs.get(TENANT, job.id)
        await store.maintenance.sweep(NOW + 7 * DAY + 2)
        with pytest.raises(NotFound) as caught:
            await store.jobs.get(TENANT, job.id)
        assert not isinstance(caught.value, Gone)

    async def test_success_and_failure_have_their_own_retention(
        self, store: Store, worker: str
    ) -> None:
        """Succeeded jobs and failed or cancelled jobs have separate retention times."""
        terms = Terms(keep_succeeded_ms=10, keep_failed_ms=20)
        good, bad = [await run_job(store, new_job(terms=terms)) for _ in range(2)]
        stopped = new_job(terms=terms)
        await settle(store, good, Succeeded("1"), NOW)
        await settle(store, bad, GaveUp(BOOM), NOW)
        await store.jobs.submit(stopped, NOW)
        await store.jobs.cancel(TENANT, stopped.id, NOW)
        await store.maintenance.sweep(NOW + 19)
        assert {job.id for job in await everything(store)} == {bad.job_id, stopped.id}
        await store.maintenance.sweep(NOW + 20)
        assert await everything(store) == []

    async def test_what_has_not_ended_is_never_deleted(self, store: Store, worker: str) -> None:
        """Queued, delayed and running jobs are never deleted, however old they are."""
        terms = Terms(keep_succeeded_ms=1, keep_failed_ms=1)
        running = await run_job(store, new_job(terms=terms))
        await store.jobs.submit_batch(
            [new_job(terms=terms), new_job(terms=terms, run_at=FOREVER)], NOW
        )
        before = await everything(store)
        assert await store.maintenance.sweep(FOREVER) == SweepResult()
        assert await everything(store) == before
        assert len(before) == 3
        assert (await job_of(store, running)).state is State.RUNNING

    async def test_a_job_may_end_and_be_deleted_by_later_sweeps(
        self, store: Store, worker: str
    ) -> None:
        """An expired job is failed by one sweep, never claimed, and deleted by a later sweep."""
        job = new_job(terms=Terms(deadline_at=NOW + 10, keep_failed_ms=10))
        await store.jobs.submit(job, NOW)
        assert (await store.maintenance.sweep(NOW + 10)).expired == 1
        assert await claim(store, now=NOW + 10) == []
        assert (await store.maintenance.sweep(NOW + 20)).deleted == 1
        assert await store.maintenance.sweep(NOW + 30) == SweepResult()

    async def test_a_deleted_jobs_public_id_can_be_used_again(self, store: Store) -> None:
        """A deleted job's public id can be reused."""
        old = new_job(public_id="r_42", terms=Terms(keep_failed_ms=1))
        await store.jobs.submit(old, NOW)
        await store.jobs.cancel(TENANT, old.id, NOW)
        await store.maintenance.sweep(NOW + 1)
        new = new_job(public_id="r_42")
        await store.jobs.submit(new, NOW + 2)
        assert (await store.jobs.get(TENANT, "r_42")).id == new.id

    async def test_nothing_of_a_deleted_job_comes_back_with_its_id(
        self, store: Store, worker: str
    ) -> None:
        """A job submitted with the id of a deleted job is a new job."""
        job = new_job(terms=Terms(keep_succeeded_ms=1))
        lease = await run_job(store, job)
        await settle(store, lease, Succeeded('"secret"'), NOW)
        await store.maintenance.sweep(NOW + 1)
        await store.jobs.submit(job._replace(input='"new"'), NOW + 2)
        found = await store.jobs.get(TENANT, job.id)
        assert (found.state, found.result, found.attempt) == (State.QUEUED, None, 0)
        assert await states_of(store, job.id) == ["queued"]
        [claimed] = await claim(store, now=NOW + 2)
        assert claimed.input == '"new"'

    async def test_sweeps_are_repeated_while_there_is_more(self, store: Store) -> None:
        """A sweep does a bounded amount of work; repeated sweeps handle each job once."""
        jobs = [new_job(terms=Terms(deadline_at=NOW + 10, keep_failed_ms=10)) for _ in range(1_000)]
        await store.jobs.submit_batch(jobs, NOW)
        assert await self._sweep_all(store, NOW + 10) == (1_000, 0)
        assert {job.state for job in await everything(store)} == {State.FAILED}
        assert await self._sweep_all(store, NOW + 20) == (0, 1_000)
        assert await everything(store) == []
        await self._all_gone(store, [jobs[0], jobs[500], jobs[-1]])

    async def _sweep_all(self, store: Store, now: int) -> tuple[int, int]:
        swept = await store.maintenance.sweep(now)
        expired, deleted = swept.expired, swept.deleted
        while swept.more:
            swept = await store.maintenance.sweep(now)
            expired, deleted = expired + swept.expired, deleted + swept.deleted
        return expired, deleted

    async def _all_gone(self, store: Store, jobs: list[JobInsert]) -> None:
        for job in jobs:
            with pytest.raises(Gone):
                await store.jobs.get(job.tenant, job.id)

    async def test_an_expired_document_is_cleared_away(self, store: Store) -> None:
        """A sweep deletes expired records only."""
        for key, expires_at in (("old", NOW + 10), ("new", NOW + 99), ("kept", None)):
            await store.records.put_record(Record(TENANT, "cache", key, "1", 0, NOW, expires_at))
        await store.maintenance.sweep(NOW + 10)
        kept = await store.records.list_records(TENANT, "cache", NOW)
        assert [record.key for record in kept] == ["kept", "new"]
