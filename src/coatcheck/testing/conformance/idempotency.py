"""Conformance tests for idempotency keys: of several submits with one key, one takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from coatcheck.errors import Conflict, Gone
from coatcheck.ids import UlidGenerator
from coatcheck.model.job import JobInsert
from coatcheck.store.base import ExistingSubmission, Idempotency, Store
from coatcheck.testing.conformance.arrange import NOW, TENANT, Conformance, everything, new_job

DAY = 86_400_000
ONCE = Idempotency("order-7", "fingerprint", NOW + DAY)


def batch_of(count: int) -> list[JobInsert]:
    """Return jobs with consecutive ids."""
    return [new_job()._replace(id=job_id) for job_id in UlidGenerator().consecutive(count)]


async def ids_of(store: Store) -> list[str]:
    """Return the ids of all jobs, oldest first."""
    return sorted(job.id for job in await everything(store))


class IdempotencyConformance(Conformance):
    """Tests for `submit` and `submit_batch` with an idempotency key."""

    async def test_the_first_submit_under_a_key_happens(self, store: Store) -> None:
        """The first submit with a new key creates the job."""
        job = new_job()
        assert await store.jobs.submit(job, NOW, ONCE) is None
        assert await ids_of(store) == [job.id]

    async def test_the_second_one_hears_of_the_first(self, store: Store) -> None:
        """A second submit returns the first submission, even if its fingerprint differs."""
        first, second = new_job(), new_job("chart")
        await store.jobs.submit(first, NOW, ONCE)
        other = ONCE._replace(fingerprint="another")
        assert await store.jobs.submit(second, NOW + 1, other) == ExistingSubmission(
            first.id, 1, "fingerprint"
        )
        assert await ids_of(store) == [first.id]

    async def test_the_same_submit_repeated_is_the_first_one(self, store: Store) -> None:
        """A caller that lost the response can repeat the submit with the same job id."""
        job = new_job()
        assert await store.jobs.submit(job, NOW, ONCE) is None
        assert await store.jobs.submit(job, NOW, ONCE) is None
        assert await ids_of(store) == [job.id]

    async def test_keys_of_tenants_do_not_meet(self, store: Store) -> None:
        """Two tenants can use the same key independently."""
        assert await store.jobs.submit(new_job(), NOW, ONCE) is None
        assert await store.jobs.submit(new_job(tenant="acme"), NOW, ONCE) is None

    async def test_other_keys_are_other_submits(self, store: Store) -> None:
        """A different key creates another job, even with the same fingerprint."""
        assert await store.jobs.submit(new_job(), NOW, ONCE) is None
        assert await store.jobs.submit(new_job(), NOW, ONCE._replace(key="order-8")) is None

    async def test_a_key_is_free_again_when_it_expires(self, store: Store) -> None:
        """A key can be reused from the millisecond at which it expires."""
        first, second, third = new_job(), new_job(), new_job()
        await store.jobs.submit(first, NOW, ONCE)
        later = ONCE._replace(expires_at=NOW + 2 * DAY)
        assert await store.jobs.submit(second, NOW + DAY - 1, later) is not None
        assert await store.jobs.submit(second, NOW + DAY, later) is None
        assert await store.jobs.submit(third, NOW + DAY, later) == ExistingSubmission(
            second.id, 1, "fingerprint"
        )

    async def test_an_expired_key_is_swept(self, store: Store) -> None:
        """A sweep removes expired keys only."""
        await store.jobs.submit(new_job(), NOW, ONCE)
        await store.maintenance.sweep(NOW + DAY - 1)
        assert await store.jobs.submit(new_job(), NOW + DAY - 1, ONCE) is not None
        await store.maintenance.sweep(NOW + DAY)
        late = ONCE._replace(expires_at=NOW + 9 * DAY)
        assert await store.jobs.submit(new_job(), NOW, late) is None

    async def test_a_submit_that_is_refused_leaves_no_key(self, store: Store) -> None:
        """A rejected submit does not store its key."""
        await store.jobs.submit(new_job(public_id="taken"), NOW)
        with pytest.raises(Conflict):
            await store.jobs.submit(new_job(public_id="taken"), NOW, ONCE)
        assert await store.jobs.submit(new_job(), NOW, ONCE) is None

    async def test_of_many_at_once_one_happens(self, store: Store) -> None:
        """Only one of several concurrent submits with a key creates a job; the others return it."""
        asked = [new_job() for _ in range(50)]
        answers = await asyncio.gather(*(store.jobs.submit(job, NOW, ONCE) for job in asked))
        [winner] = await ids_of(store)
        assert [job.id for job, answer in zip(asked, answers, strict=True) if answer is None] == [
            winner
        ]
        assert {answer.first_id for answer in answers if answer is not None} == {winner}

    async def test_a_key_outlives_its_job(self, store: Store) -> None:
        """A key still refers to its job after the job is deleted, so the work is not repeated."""
        job = new_job()
        await store.jobs.submit(job, NOW, ONCE)
        await store.jobs.cancel(TENANT, job.id, NOW)
        await store.jobs.delete(TENANT, job.id, NOW)
        assert await store.jobs.submit(new_job(), NOW, ONCE) == ExistingSubmission(
            job.id, 1, "fingerprint"
        )
        with pytest.raises(Gone):
            await store.jobs.get(TENANT, job.id)

    @pytest.mark.parametrize("size", [3, 450])
    async def test_a_batch_happens_once(self, store: Store, size: int) -> None:
        """A second batch with the same key returns the first one, at any size."""
        first, second = batch_of(size), batch_of(size)
        assert await store.jobs.submit_batch(first, NOW, ONCE) is None
        earlier = await store.jobs.submit_batch(second, NOW, ONCE)
        assert earlier == ExistingSubmission(first[0].id, size, "fingerprint")
        assert await ids_of(store) == [job.id for job in first]

    @pytest.mark.parametrize("size", [3, 450])
    async def test_of_two_batches_at_once_one_happens(self, store: Store, size: int) -> None:
        """Only one of several concurrent batches with a key is stored, and completely."""
        asked: Sequence[list[JobInsert]] = [batch_of(size) for _ in range(3)]
        answers = await asyncio.gather(*(store.jobs.submit_batch(new, NOW, ONCE) for new in asked))
        assert answers.count(None) == 1
        winner = asked[answers.index(None)]
        assert await ids_of(store) == [job.id for job in winner]
