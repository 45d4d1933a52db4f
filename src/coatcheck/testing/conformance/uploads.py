"""Conformance tests for uploads that wait for a job, and for the retention of inputs."""

from __future__ import annotations

import pytest

from coatcheck.errors import BlobGone, InputGone, UploadGone
from coatcheck.model.job import JobInsert, Lease, Terms
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Succeeded
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.transition import OVERRUN_MS
from coatcheck.model.upload import StoredUpload
from coatcheck.store.base import Idempotency, JobFilter, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    new_id,
    new_job,
    reclaim,
    run_job,
    settle,
)
from coatcheck.testing.conformance.blobs import (
    LATER,
    SHA,
    artifact,
    large_job,
    reserve,
    unneeded,
)


async def uploaded(store: Store, key: str = "up", tenant: str = TENANT) -> StoredUpload:
    """Store an upload that waits for a job and return it."""
    await store.files.reserve_blob(BlobName(tenant, NOBODY, key), NOW + 1)
    upload = StoredUpload(new_id(), "a.zip", "application/zip", 2**40, SHA, key, NOW, LATER)
    await store.files.put_upload(tenant, upload)
    return upload


class UploadConformance(Conformance):
    """Tests for storing, reading, listing and deleting uploads, and for submits with uploads."""

    async def test_an_upload_waits_for_its_job(self, store: Store) -> None:
        """An upload is kept until it expires and is visible to its own tenant only."""
        upload = await uploaded(store)
        assert await store.files.get_upload(TENANT, upload.id) == upload
        assert await store.files.get_upload("acme", upload.id) is None
        assert await unneeded(store, LATER - 1) == []
        assert await unneeded(store) == ["up"]
        await store.files.finish_blob_removal([BlobName(TENANT, NOBODY, "up")])
        assert await store.files.get_upload(TENANT, upload.id) is None

    async def test_an_upload_whose_bytes_are_being_removed_is_refused(self, store: Store) -> None:
        """An upload whose blob is already being removed raises `BlobGone`."""
        await store.files.reserve_blob(BlobName(TENANT, NOBODY, "late"), NOW)
        await unneeded(store, NOW)
        upload = StoredUpload(new_id(), None, "text/plain", 1, SHA, "late", NOW, LATER)
        with pytest.raises(BlobGone):
            await store.files.put_upload(TENANT, upload)
        assert await store.files.get_upload(TENANT, upload.id) is None

    async def test_a_job_takes_its_upload_over(self, store: Store) -> None:
        """A submitted job takes over its upload, even if the submit is repeated."""
        upload = await uploaded(store)
        job = new_job(uploads=(upload,))
        await store.jobs.submit(job, NOW)
        await store.jobs.submit(job, NOW)
        assert await store.files.get_upload(TENANT, upload.id) is None
        assert await store.files.get_upload(TENANT, upload.id, job.id) == upload
        assert await store.files.list_uploads(TENANT, job.id) == [upload]
        assert await unneeded(store) == []

    async def test_a_second_job_is_refused(self, store: Store) -> None:
        """An upload that belongs to a job or to another tenant rejects the whole submit."""
        upload = await uploaded(store)
        await store.jobs.submit(new_job(uploads=(upload,)), NOW)
        with pytest.raises(UploadGone):
            await store.jobs.submit(new_job(uploads=(upload,)), NOW)
        other = await uploaded(store, "other")
        with pytest.raises(UploadGone):
            await store.jobs.submit(new_job(tenant="acme", uploads=(other,)), NOW)
        assert len(await store.jobs.list_jobs(JobFilter(TENANT))) == 1
        assert await store.jobs.list_jobs(JobFilter("acme")) == []

    async def test_an_expired_upload_is_refused(self, store: Store) -> None:
        """An upload whose blob is being removed rejects the submit."""
        upload = await uploaded(store)
        await unneeded(store)
        with pytest.raises(UploadGone):
            await store.jobs.submit(new_job(uploads=(upload,)), NOW)

    async def test_a_batch_takes_its_uploads_over(self, store: Store) -> None:
        """A batch of any size takes over its uploads; an upload already in use rejects all jobs."""
        for others in (2, 250):
            upload = await uploaded(store, f"up-{others}")
            jobs = sorted([*(new_job() for _ in range(others)), new_job(uploads=(upload,))])
            await store.jobs.submit_batch(jobs, NOW)
            [taken] = [job for job in jobs if job.uploads]
            assert await store.files.list_uploads(TENANT, taken.id) == [upload]
            with pytest.raises(UploadGone):
                again = sorted(job._replace(id=new_id()) for job in jobs)
                await store.jobs.submit_batch(again, NOW)
        assert await unneeded(store) == []
        assert await store.jobs.list_jobs(JobFilter(TENANT, state=None, limit=500)) != []

    async def test_of_two_submits_under_one_key_one_takes_it_over(self, store: Store) -> None:
        """Only the first of two submits with one idempotency key takes over the upload."""
        upload = await uploaded(store)
        first, second = new_job(uploads=(upload,)), new_job(uploads=(upload,))
        once = Idempotency("key", "fingerprint", LATER * 2)
        assert await store.jobs.submit(first, NOW, once) is None
        earlier = await store.jobs.submit(second, NOW, once)
        assert earlier is not None
        assert earlier.first_id == first.id

    async def test_a_deleted_job_lets_go_of_its_uploads(self, store: Store) -> None:
        """Deleting a job releases its uploads, and the receipt counts them."""
        upload = await uploaded(store)
        job = new_job(uploads=(upload,))
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel(TENANT, job.id, NOW)
        deleted = await store.jobs.delete(TENANT, job.id, NOW)
        assert (deleted.uploads, deleted.blobs) == (1, 1)
        assert await store.files.list_uploads(TENANT, job.id) == []
        assert await unneeded(store, NOW) == ["up"]

    async def test_a_fork_has_uploads_of_its_own(self, store: Store, worker: str) -> None:
        """A fork has its own copy of an upload, with the same upload id."""
        upload = await uploaded(store)
        source = new_job(uploads=(upload,))
        await run_job(store, source)
        fork = new_job(forked_from=source.id)
        await store.files.reserve_blob(BlobName(TENANT, fork.id, "copy"), LATER)
        copy = upload._replace(key="copy")
        await store.jobs.fork(source.id, 0, fork._replace(uploads=(copy,)), NOW)
        assert await store.files.get_upload(TENANT, upload.id, source.id) == upload
        assert await store.files.get_upload(TENANT, upload.id, fork.id) == copy
        assert await unneeded(store) == []

    async def test_an_upload_that_nobody_wants_is_given_up(self, store: Store) -> None:
        """An upload without a job can be deleted; a job's upload cannot."""
        upload, taken = await uploaded(store), await uploaded(store, "taken")
        await store.jobs.submit(new_job(uploads=(taken,)), NOW)
        assert await store.files.delete_upload(TENANT, upload.id)
        assert not await store.files.delete_upload(TENANT, upload.id)
        assert not await store.files.delete_upload(TENANT, taken.id)
        assert await unneeded(store, NOW) == ["up"]


async def limited(store: Store, until: int, **fields: object) -> tuple[JobInsert, Lease]:
    """Return a running job with a blob input, an upload and limited input retention."""
    upload = await uploaded(store)
    job = (await large_job(store))._replace(input_until=until, uploads=(upload,), **fields)  # type: ignore[arg-type]  # named fields
    await store.jobs.submit(job, NOW)
    return job, await reclaim(store, job.id)


async def assert_input_gone(store: Store, job: JobInsert) -> None:
    """Assert that a job's input and uploads are gone."""
    with pytest.raises(InputGone):
        await store.jobs.get_input(TENANT, job.id)
    assert await store.files.list_uploads(TENANT, job.id) == []
    assert await unneeded(store, NOW) == ["in", "up"]


class InputConformance(Conformance):
    """Tests for `input_until`."""

    @pytest.mark.parametrize("outcome", [Succeeded("1"), GaveUp(BOOM)])
    async def test_an_input_is_dropped_when_its_job_ends(
        self, store: Store, worker: str, outcome: Outcome
    ) -> None:
        """With `input_until=0`, a finished job loses its input but keeps its artifacts."""
        job, lease = await limited(store, 0)
        await reserve(store, lease, "file")
        await store.files.record_artifact(lease, artifact("a.txt", "file"))
        assert await store.jobs.get_input(TENANT, job.id) == job.input
        await settle(store, lease, outcome)
        await assert_input_gone(store, job)
        assert [file.name for file in (await store.jobs.get(TENANT, job.id)).artifacts] == ["a.txt"]

    async def test_it_is_there_for_the_next_attempt(self, store: Store, worker: str) -> None:
        """An input is kept for a retry and dropped when the job finishes."""
        job, lease = await limited(store, 0)
        await settle(store, lease, Errored(BOOM, 0))
        lease = await reclaim(store, job.id)
        assert await store.jobs.get_input(TENANT, job.id) == job.input
        await settle(store, lease, Succeeded("1"))
        await assert_input_gone(store, job)

    async def test_it_is_dropped_when_its_job_is_cancelled_or_expires(self, store: Store) -> None:
        """An input is dropped when its job is cancelled or expires without a run."""
        for end in ("cancel", "sweep"):
            terms = Terms(deadline_at=NOW + 10)
            job = new_job(input_until=0, terms=terms)
            await store.jobs.submit(job, NOW)
            if end == "cancel":
                await store.jobs.cancel(TENANT, job.id, NOW)
            else:
                await store.maintenance.sweep(NOW + 10)
            with pytest.raises(InputGone):
                await store.jobs.get_input(TENANT, job.id)

    async def test_a_job_without_its_input_cannot_be_resumed(
        self, store: Store, worker: str
    ) -> None:
        """Resuming a job whose input is gone raises `InputGone` and changes nothing."""
        job, lease = await limited(store, 0)
        await settle(store, lease, GaveUp(BOOM))
        before = await store.jobs.get(TENANT, job.id)
        with pytest.raises(InputGone):
            await store.jobs.resume(TENANT, job.id, NOW)
        assert await store.jobs.get(TENANT, job.id) == before

    async def test_an_input_is_dropped_after_its_time(self, store: Store, worker: str) -> None:
        """A sweep drops the input of a finished job once its retention has passed."""
        job, lease = await limited(store, NOW + 100)
        other = await run_job(store)
        for end in (lease, other):
            await settle(store, end, Succeeded("1"))
        await store.maintenance.sweep(NOW + 99)
        assert await store.jobs.get_input(TENANT, job.id) == job.input
        await store.maintenance.sweep(NOW + 100)
        await assert_input_gone(store, job)
        assert await store.jobs.get_input(TENANT, other.job_id) == '{"n":1}'

    @pytest.mark.parametrize("until", [0, NOW + 10])
    async def test_the_input_of_a_running_job_is_kept_no_longer_than_it_may_run(
        self, store: Store, worker: str, until: int
    ) -> None:
        """A running job's input is kept until the sweep fails the job after its deadline."""
        job, _ = await limited(store, until, terms=Terms(deadline_at=NOW + 10))
        await store.maintenance.sweep(NOW + 10 + OVERRUN_MS - 1)
        assert await store.jobs.get_input(TENANT, job.id) == job.input
        await store.maintenance.sweep(NOW + 10 + OVERRUN_MS)
        await assert_input_gone(store, job)

    async def test_the_input_of_a_running_job_without_a_deadline_stays(
        self, store: Store, worker: str
    ) -> None:
        """A running job without a deadline keeps its input until it finishes."""
        job, lease = await limited(store, NOW + 100)
        await store.maintenance.sweep(NOW + 100)
        assert await store.jobs.get_input(TENANT, job.id) == job.input
        await settle(store, lease, GaveUp(BOOM))
        await store.maintenance.sweep(NOW + 100)
        await assert_input_gone(store, job)

    async def test_a_resumed_job_has_no_longer_than_its_input(
        self, store: Store, worker: str
    ) -> None:
        """Resuming replaces a deadline that has passed with the end of the input's retention."""
        terms = Terms(deadline_at=NOW + 10)
        job, lease = await limited(store, NOW + 100, terms=terms)
        await settle(store, lease, GaveUp(BOOM))
        await store.jobs.resume(TENANT, job.id, NOW + 50)
        assert (await store.jobs.get(TENANT, job.id)).terms.deadline_at == NOW + 100

    async def test_the_receipt_counts_what_was_left(self, store: Store, worker: str) -> None:
        """The receipt does not count an input that was already dropped."""
        job, lease = await limited(store, 0)
        await settle(store, lease, Succeeded("1"))
        deleted = await store.jobs.delete(TENANT, job.id, NOW)
        assert (deleted.payloads, deleted.uploads) == (1, 0)
