"""Conformance tests for the number of jobs ahead of a job, and for the store's counters."""

from __future__ import annotations

import asyncio

from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    Conformance,
    claim,
    new_job,
)


async def ahead(store: Store, job_id: str, *kinds: str, most: int = 1000) -> int:
    """Count the jobs ahead of a job."""
    return await store.queues.count_ahead(
        await store.jobs.get(TENANT, job_id), kinds or ("mail",), most
    )


class CountConformance(Conformance):
    """Tests for `count_ahead`, `increment_counters` and `read_counters`."""

    async def test_jobs_are_counted_in_the_order_of_claims(self, store: Store, worker: str) -> None:
        """Jobs of a higher priority and older jobs of the same priority are ahead."""
        jobs = [new_job(priority=priority) for priority in (0, 0, 5, 0, -1)]
        for job in jobs:
            await store.jobs.submit(job, NOW)
        assert [await ahead(store, job.id) for job in jobs] == [1, 2, 0, 3, 4]

        await claim(store, limit=2)
        assert [await ahead(store, job.id) for job in jobs[1:2] + jobs[3:]] == [0, 1, 2]

    async def test_only_what_is_due_in_the_same_queue_counts(self, store: Store) -> None:
        """Delayed jobs and jobs in other queues are not counted."""
        await store.jobs.submit(new_job(queue="other"), NOW)
        await store.jobs.submit(new_job(run_at=NOW + 1), NOW)
        await store.jobs.submit(new_job(), NOW)
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await ahead(store, job.id) == 1

    async def test_other_tenants_take_turns_and_are_not_counted(self, store: Store) -> None:
        """Jobs of other tenants count only if their priority is higher; own jobs always count."""
        await store.jobs.submit_batch([new_job(tenant="acme") for _ in range(5)], NOW)
        await store.jobs.submit(new_job(tenant="acme", priority=1), NOW)
        await store.jobs.submit_batch([new_job(limit_key=key) for key in "abb"], NOW)
        job = new_job(limit_key="b")
        await store.jobs.submit_batch([job, new_job(limit_key="a")], NOW)
        assert await ahead(store, job.id) == 4

    async def test_only_the_named_kinds_count(self, store: Store) -> None:
        """Only jobs of the named kinds count, and a kind named twice counts once."""
        for kind in ("mail", "chart", "zip"):
            await store.jobs.submit(new_job(kind), NOW)
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await ahead(store, job.id, "mail", "chart", "mail") == 2

    async def test_it_counts_no_further_than_it_is_told(self, store: Store) -> None:
        """Counting stops at the given maximum, which bounds its cost."""
        await store.jobs.submit_batch([new_job() for _ in range(20)], NOW)
        job = new_job()
        await store.jobs.submit(job, NOW)
        assert await ahead(store, job.id, most=7) == 7

    async def test_counts_add_up(self, store: Store) -> None:
        """Concurrent increments are all counted."""
        await asyncio.gather(
            *(store.maintenance.increment_counters({"b": 1, "a": 2}) for _ in range(20)),
            *(store.maintenance.increment_counters({"a": 1, "b": 3}) for _ in range(20)),
        )
        await store.maintenance.increment_counters({})
        counters = await store.maintenance.read_counters()
        assert (counters["a"], counters["b"]) == (60, 80)
