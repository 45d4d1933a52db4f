"""Conformance tests for batches: all jobs of a batch are submitted, or none."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.errors import Conflict, InvalidInput
from coatcheck.model.job import JobInsert
from coatcheck.store.base import BATCH_LIMIT, Store
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    Conformance,
    claim,
    claimed_ids,
    everything,
    new_job,
    states_of,
)
from coatcheck.testing.conformance.submission import full_job

# More than any store writes in one transaction.
MANY = 1_050


class BatchConformance(Conformance):
    """Tests for `submit_batch`."""

    async def test_a_batch_is_submitted_together(self, store: Store, worker: str) -> None:
        """Jobs of a batch are claimed in the order of the batch."""
        jobs = [new_job(input=f'"{n}"') for n in range(3)]
        await store.jobs.submit_batch(jobs, NOW)
        assert [one.input for one in await claim(store)] == ['"0"', '"1"', '"2"']

    async def test_an_empty_batch_is_nothing(self, store: Store) -> None:
        """Submitting an empty batch succeeds and writes nothing."""
        await store.jobs.submit_batch([], NOW)
        assert await everything(store) == []

    async def test_a_batch_of_one(self, store: Store) -> None:
        """A batch of one job has the same effect as a single submit."""
        job = new_job()
        await store.jobs.submit_batch([job], NOW)
        assert [found.id for found in await everything(store)] == [job.id]
        assert await states_of(store, job.id) == ["queued"]

    async def test_a_large_batch_is_whole(self, store: Store, worker: str) -> None:
        """Each job of a large batch is stored once, with its input and its first event."""
        jobs = [new_job(input=str(n)) for n in range(MANY)]
        await store.jobs.submit_batch(jobs, NOW)
        assert [found.id for found in await everything(store)] == [job.id for job in reversed(jobs)]
        claims = await claim(store, limit=2 * MANY)
        assert [one.input for one in claims] == [job.input for job in jobs]
        assert await states_of(store, jobs[-1].id) == ["queued", "running"]

    async def test_a_job_of_a_large_batch_keeps_all_its_fields(self, store: Store) -> None:
        """A job submitted in a large batch has the same fields as one submitted alone."""
        alone, batched = full_job(), full_job()._replace(public_id="r_2")
        await store.jobs.submit(alone, NOW)
        await store.jobs.submit_batch([*(new_job() for _ in range(MANY)), batched], NOW)
        one, other = (
            await store.jobs.get("acme", alone.id),
            await store.jobs.get("acme", batched.id),
        )
        for name in one.__dataclass_fields__:
            if name not in ("id", "public_id"):
                assert getattr(one, name) == getattr(other, name), name

    async def test_the_largest_batch(self, store: Store) -> None:
        """A batch of `BATCH_LIMIT` (10,000) jobs is accepted."""
        await store.jobs.submit_batch([new_job() for _ in range(BATCH_LIMIT)], NOW)
        [queue] = await store.queues.list_queues()
        assert queue.ready == BATCH_LIMIT == 10_000

    async def test_a_batch_over_the_limit_changes_nothing(self, store: Store) -> None:
        """A batch with one job more than the limit is rejected before anything is written."""
        with pytest.raises(InvalidInput):
            await store.jobs.submit_batch([new_job() for _ in range(BATCH_LIMIT + 1)], NOW)
        assert await everything(store) == []
        assert not (await store.maintenance.sweep(NOW + 1)).batches

    async def test_a_batch_can_be_repeated(self, store: Store) -> None:
        """Submitting existing ids again leaves those jobs unchanged, as with single submits."""
        jobs = [new_job() for _ in range(MANY)]
        await store.jobs.submit(jobs[7], NOW)
        await store.jobs.submit_batch(jobs, NOW)
        await store.jobs.submit_batch(jobs, NOW + 1)
        assert len(await everything(store)) == MANY
        assert await states_of(store, jobs[7].id) == ["queued"]

    async def test_delayed_jobs_of_a_batch_wait(self, store: Store, worker: str) -> None:
        """A batch can mix jobs that are due now with jobs that are scheduled for later."""
        now, later = new_job(), new_job(run_at=NOW + 1_000)
        await store.jobs.submit_batch([later, now], NOW)
        taken = await store.workers.claim(worker, ["mail"], 10, NOW)
        assert [one.lease.job_id for one in taken.claims] == [now.id]
        assert taken.next_due == NOW + 1_000

    async def test_a_conflict_refuses_the_whole_batch(self, store: Store) -> None:
        """A public id that is already in use rejects every job of the batch."""
        await store.jobs.submit(new_job(public_id="taken"), NOW)
        await self._refused(store, [new_job(), new_job(public_id="taken"), new_job()])

    async def test_a_conflict_at_the_end_refuses_a_large_batch(self, store: Store) -> None:
        """A late conflict leaves no jobs behind, before and after the next sweep."""
        await store.jobs.submit(new_job(public_id="taken"), NOW)
        await self._refused(store, [*(new_job() for _ in range(MANY)), new_job(public_id="taken")])

    async def test_a_conflict_within_a_large_batch_refuses_it(self, store: Store) -> None:
        """A large batch is rejected if it contains the same public id twice."""
        await store.jobs.submit(new_job(), NOW)
        twice = [new_job(public_id="twice"), *(new_job() for _ in range(MANY))]
        await self._refused(store, [*twice, new_job(public_id="twice")])

    async def _refused(self, store: Store, batch: list[JobInsert]) -> None:
        before = await everything(store)
        with pytest.raises(Conflict):
            await store.jobs.submit_batch(batch, NOW)
        assert await everything(store) == before
        await store.maintenance.sweep(NOW + 1)
        assert await everything(store) == before
        assert await store.jobs.get_many([(TENANT, job.id) for job in batch]) == []

    async def test_others_are_served_while_a_batch_is_written(
        self, store: Store, worker: str
    ) -> None:
        """Single submits and heartbeats complete while a large batch is being written."""
        jobs = [new_job("chart") for _ in range(MANY)]
        single = [new_job() for _ in range(20)]
        await asyncio.gather(
            store.jobs.submit_batch(jobs, NOW),
            *(store.jobs.submit(job, NOW) for job in single),
            *(store.workers.heartbeat(worker) for _ in range(20)),
        )
        assert len(await claimed_ids(store, "mail", "chart", limit=2 * MANY)) == MANY + 20
        [seen] = await store.workers.list_workers()
        assert seen.info.beats == 20
