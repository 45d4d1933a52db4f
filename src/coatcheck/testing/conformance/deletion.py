"""Conformance tests for deleting finished jobs."""

from __future__ import annotations

import pytest

from coatcheck.errors import Conflict, Gone, NotFound
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import DeletedJob, JobFilter, Store
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    Conformance,
    new_id,
    new_job,
    run_job,
    settle,
)


class DeleteConformance(Conformance):
    """Tests for `delete`."""

    async def test_a_deleted_job_is_gone(self, store: Store, worker: str) -> None:
        """Deleting returns a receipt of the removed rows, and later reads raise `Gone`."""
        lease = await run_job(store, new_job(labels='{"team":"blue"}'))
        await settle(store, lease, Succeeded('"done"'))

        assert await store.jobs.delete(TENANT, lease.job_id, NOW) == DeletedJob(lease.job_id, 2, 3)
        with pytest.raises(Gone):
            await store.jobs.get(TENANT, lease.job_id)
        assert await store.jobs.list_events(TENANT, lease.job_id, 0, 10) == []
        assert await store.jobs.list_jobs(JobFilter(TENANT)) == []
        assert await store.jobs.list_jobs(JobFilter(TENANT, labels=(("team", "blue"),))) == []

    async def test_it_is_deleted_once(self, store: Store) -> None:
        """Deleting a job a second time raises `Gone`."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel(TENANT, job.id, NOW)
        await store.jobs.delete(TENANT, job.id, NOW)
        with pytest.raises(Gone):
            await store.jobs.delete(TENANT, job.id, NOW)

    async def test_a_job_that_has_not_ended_stays(self, store: Store, worker: str) -> None:
        """Deleting a queued or running job raises `Conflict` and changes nothing."""
        queued = new_job("chart")
        await store.jobs.submit(queued, NOW)
        lease = await run_job(store)
        for job_id in (queued.id, lease.job_id):
            before = await store.jobs.get(TENANT, job_id)
            with pytest.raises(Conflict):
                await store.jobs.delete(TENANT, job_id, NOW)
            assert await store.jobs.get(TENANT, job_id) == before

    async def test_an_unknown_job_is_not_deleted(self, store: Store) -> None:
        """Deleting an unknown job or another tenant's job raises `NotFound`."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel(TENANT, job.id, NOW)
        for tenant, job_id in ((TENANT, new_id()), ("acme", job.id)):
            with pytest.raises(NotFound):
                await store.jobs.delete(tenant, job_id, NOW)

    async def test_a_job_is_deleted_by_its_public_id(self, store: Store) -> None:
        """The receipt of a job deleted by public id contains the job's own id."""
        job = new_job(public_id="d-1")
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel(TENANT, "d-1", NOW)
        assert (await store.jobs.delete(TENANT, "d-1", NOW)).job_id == job.id
