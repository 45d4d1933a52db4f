"""Conformance tests for blobs: ownership, references, and the time of removal."""

from __future__ import annotations

import pytest

from coatcheck.errors import BlobGone, Conflict
from coatcheck.model.artifact import MOST_OF_A_JOB, Artifact, small_file
from coatcheck.model.job import Failure, JobInsert, Lease
from coatcheck.model.outcome import Errored, GaveUp, Succeeded
from coatcheck.model.payload import BlobName, BlobReference, write_reference
from coatcheck.model.state import State
from coatcheck.store.base import Idempotency, JobFilter, Report, Settlement, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    job_of,
    new_job,
    reclaim,
    run_job,
    settle,
)

LATER = NOW + 3_600_000
SHA = "ab" * 32


def reference(key: str) -> str:
    """Return a payload that refers to a blob."""
    return write_reference(BlobReference(key, 100_000, SHA))


def artifact(name: str, key: str, size: int = 5) -> Artifact:
    """Return an artifact of a job."""
    return Artifact(name, "text/plain", size, SHA, key, NOW)


async def large_job(store: Store, key: str = "in") -> JobInsert:
    """Reserve a blob for the input of a new job and return the job, not yet submitted."""
    job = new_job()
    await store.files.reserve_blob(BlobName(TENANT, job.id, key), LATER)
    return job._replace(input=reference(key))


async def reserve(store: Store, lease: Lease, key: str) -> BlobName:
    """Reserve a blob for a running job."""
    blob = BlobName(lease.tenant, lease.job_id, key)
    await store.files.reserve_blob(blob, LATER)
    return blob


async def unneeded(store: Store, now: int = LATER) -> list[str]:
    """Return the keys of the blobs that are due for removal."""
    return sorted(blob.key for blob in await store.files.start_blob_removal(now, 1_000))


class BlobConformance(Conformance):
    """Tests for blob reservation, artifacts, `start_blob_removal` and `finish_blob_removal`."""

    async def test_a_blob_nobody_names_is_removed_after_its_time(self, store: Store) -> None:
        """An unreferenced blob is removed once its reservation expires; then no job can use it."""
        job = await large_job(store)
        assert await unneeded(store, LATER - 1) == []
        assert await unneeded(store) == ["in"]
        with pytest.raises(BlobGone):
            await store.jobs.submit(job, NOW)
        assert await store.jobs.list_jobs(JobFilter(TENANT)) == []
        assert await unneeded(store) == ["in"], "until it is forgotten"
        await store.files.finish_blob_removal([BlobName(TENANT, job.id, "in")])
        assert await unneeded(store) == []
        with pytest.raises(BlobGone):
            await store.jobs.submit(job, NOW)

    async def test_a_job_keeps_the_blob_of_its_input(self, store: Store, worker: str) -> None:
        """A submitted job keeps its input blob, and its claim carries the reference unchanged."""
        job = await large_job(store)
        await store.jobs.submit(job, NOW)
        await store.jobs.submit(job, NOW)
        assert await unneeded(store) == []
        [claimed] = await claim(store)
        assert claimed.input == job.input

    async def test_a_job_keeps_the_blob_of_its_result(self, store: Store, worker: str) -> None:
        """A result's blob is kept, even if the same settlement is sent twice."""
        lease = await run_job(store)
        await reserve(store, lease, "out")
        assert await settle(store, lease, Succeeded(reference("out")))
        assert await settle(store, lease, Succeeded(reference("out")))
        assert await unneeded(store) == []
        assert (await job_of(store, lease)).result == reference("out")

    async def test_a_stale_result_keeps_no_blob(self, store: Store, worker: str) -> None:
        """A blob written for a stale settlement is removed like any unreferenced blob."""
        lease = await run_job(store)
        await reserve(store, lease, "out")
        stale = lease._replace(fence=lease.fence - 1)
        assert not await settle(store, stale, Succeeded(reference("out")))
        assert await unneeded(store) == ["out"]

    async def test_a_result_whose_blob_is_gone_is_not_written(
        self, store: Store, worker: str
    ) -> None:
        """A settlement whose blob is gone raises `BlobGone` and leaves the job running."""
        lease = await run_job(store)
        with pytest.raises(BlobGone):
            await settle(store, lease, Succeeded(reference("never-noted")))
        assert (await job_of(store, lease)).state == "running"
        assert await settle(store, lease, Succeeded("1"))

    async def test_large_and_small_results_are_settled_together(
        self, store: Store, worker: str
    ) -> None:
        """One settle call accepts small results and results in blobs."""
        small, large = await run_job(store), await run_job(store)
        await reserve(store, large, "out")
        ends = [Settlement(small, Succeeded("1")), Settlement(large, Succeeded(reference("out")))]
        assert await store.workers.settle(ends, NOW) == [True, True]
        assert await unneeded(store) == []

    async def test_a_spawned_job_keeps_the_blob_of_its_input(
        self, store: Store, worker: str
    ) -> None:
        """A report that is accepted keeps the blobs of its children; a stale report keeps none."""
        lease = await run_job(store)
        child, late = await large_job(store), await large_job(store, "late")
        stale = lease._replace(fence=lease.fence - 1)
        assert not await store.workers.report(stale, Report(children=(late,)), NOW)
        assert await store.workers.report(lease, Report(children=(child,)), NOW)
        assert await unneeded(store) == ["late"]
        [claimed] = await claim(store)
        assert claimed.input == child.input

    async def test_a_spawned_job_whose_blob_is_gone_is_not_written(
        self, store: Store, worker: str
    ) -> None:
        """A child with a missing blob rejects the whole report."""
        lease = await run_job(store)
        said = Report(phase="spawning", children=(new_job(input=reference("never-noted")),))
        with pytest.raises(BlobGone):
            await store.workers.report(lease, said, NOW)
        assert (await job_of(store, lease)).phase is None
        assert await claim(store) == []

    async def test_a_fork_keeps_the_blob_of_its_input(self, store: Store, worker: str) -> None:
        """A fork has its own input blob; deleting the original removes only the original's blob."""
        source = await large_job(store, "source")
        lease = await run_job(store, source)
        fork = (await large_job(store, "fork"))._replace(forked_from=source.id)
        await store.jobs.fork(source.id, 0, fork, NOW)
        assert await unneeded(store) == []
        await settle(store, lease, Succeeded("1"))
        await store.jobs.delete(TENANT, source.id, NOW)
        assert await unneeded(store) == ["source"]

    async def test_a_batch_keeps_its_blobs(self, store: Store) -> None:
        """Blobs are kept for jobs at any position of a large batch."""
        jobs = [new_job() for _ in range(250)]
        jobs[3], jobs[203] = await large_job(store, "three"), await large_job(store, "two-hundred")
        await store.jobs.submit_batch(sorted(jobs), NOW)
        assert await unneeded(store) == []
        assert (await store.jobs.get(TENANT, jobs[203].id)).id == jobs[203].id

    async def test_a_batch_whose_blob_is_gone_is_not_taken(self, store: Store) -> None:
        """A single missing blob rejects every job of the batch."""
        missing = new_job(input=reference("never-noted"))
        for others in (1, 250):
            jobs = [*(new_job() for _ in range(others)), missing]
            with pytest.raises(BlobGone):
                await store.jobs.submit_batch(jobs, NOW)
        assert await store.jobs.list_jobs(JobFilter(TENANT)) == []

    async def test_of_two_submits_under_one_key_one_keeps_its_blob(self, store: Store) -> None:
        """The blob of the duplicate submission becomes unreferenced and is removed."""
        first, second = await large_job(store, "first"), await large_job(store, "second")
        once = Idempotency("key", "fingerprint", LATER * 2)
        assert await store.jobs.submit(first, NOW, once) is None
        assert await store.jobs.submit(second, NOW, once) is not None
        assert await unneeded(store) == ["second"]

    async def test_a_deleted_job_lets_go_of_its_blobs(self, store: Store, worker: str) -> None:
        """Deleting a job releases its blobs immediately, and the receipt counts them."""
        job = await large_job(store)
        await store.jobs.submit(job, NOW)
        lease = await reclaim(store, job.id)
        await reserve(store, lease, "file")
        await store.files.record_artifact(lease, artifact("a.txt", "file"))
        await reserve(store, lease, "out")
        await settle(store, lease, Succeeded(reference("out")))
        deleted = await store.jobs.delete(TENANT, job.id, NOW)
        assert (deleted.payloads, deleted.artifacts, deleted.blobs) == (2, 1, 3)
        assert await unneeded(store, NOW) == ["file", "in", "out"]

    async def test_an_expired_job_lets_go_of_its_blobs(self, store: Store, worker: str) -> None:
        """A sweep that deletes an expired job releases all of its blobs."""
        job = await large_job(store)
        await store.jobs.submit(job, NOW)
        lease = await reclaim(store, job.id)
        await reserve(store, lease, "file")
        await store.files.record_artifact(lease, artifact("a.txt", "file"))
        await settle(store, lease, Succeeded("1"))
        expires_at = (await job_of(store, lease)).expires_at
        assert expires_at is not None
        assert (await store.maintenance.sweep(expires_at)).deleted == 1
        assert await unneeded(store, NOW) == ["file", "in"]

    async def test_what_a_job_keeps_cannot_be_forgotten(self, store: Store) -> None:
        """`finish_blob_removal` ignores a blob that a job still uses."""
        job = await large_job(store)
        await store.jobs.submit(job, NOW)
        await store.files.finish_blob_removal([BlobName(TENANT, job.id, "in")])
        await store.jobs.cancel(TENANT, job.id, NOW)
        assert (await store.jobs.delete(TENANT, job.id, NOW)).blobs == 1

    async def test_files_are_listed_with_their_job(self, store: Store, worker: str) -> None:
        """A job lists its artifacts by name in every read; other jobs do not show them."""
        lease = await run_job(store)
        for name in ("b.txt", "a.txt"):
            await reserve(store, lease, f"key-{name}")
            assert await store.files.record_artifact(
                lease, artifact(name, f"key-{name}", size=2**40)
            )
        other = new_job()
        await store.jobs.submit(other, NOW)
        files = tuple(artifact(n, f"key-{n}", size=2**40) for n in ("a.txt", "b.txt"))
        assert (await job_of(store, lease)).artifacts == files
        assert (await store.jobs.get_many([(TENANT, lease.job_id)]))[0].artifacts == files
        listed = {job.id: job.artifacts for job in await store.jobs.list_jobs(JobFilter(TENANT))}
        assert listed == {lease.job_id: files, other.id: ()}

    async def test_a_file_of_the_same_name_replaces_the_other(
        self, store: Store, worker: str
    ) -> None:
        """A later artifact with the same name replaces the earlier one, whose blob is removed."""
        lease = await run_job(store)
        await reserve(store, lease, "old")
        await store.files.record_artifact(lease, artifact("a.txt", "old"))
        await settle(store, lease, Errored(BOOM, 0))
        lease = await reclaim(store, lease.job_id)
        await reserve(store, lease, "new")
        assert await store.files.record_artifact(lease, artifact("a.txt", "new"))
        assert await store.files.record_artifact(lease, artifact("a.txt", "new")), "told twice"
        assert [file.key for file in (await job_of(store, lease)).artifacts] == ["new"]
        assert await unneeded(store) == ["old"]

    async def test_a_small_file_is_kept_in_its_row(self, store: Store, worker: str) -> None:
        """A small artifact is stored in its row without a blob.

        A large artifact with the same name can replace it, and the reverse.
        """
        lease = await run_job(store)
        small, _ = small_file((TENANT, lease.job_id), "a.txt", "text/plain", b"hello", NOW)
        assert small.row == (TENANT, lease.job_id, "a.txt")
        assert await store.files.record_artifact(lease, small, "aGVsbG8=")
        assert (await job_of(store, lease)).artifacts == (small,)
        assert await store.files.get_artifact_content(*small.row) == "aGVsbG8="
        assert await store.files.get_artifact_content(TENANT, lease.job_id, "b.txt") is None
        await reserve(store, lease, "large")
        assert await store.files.record_artifact(lease, artifact("a.txt", "large"))
        assert await store.files.get_artifact_content(*small.row) is None
        assert await store.files.record_artifact(lease, small, "aGV5")
        assert await unneeded(store, NOW) == ["large"]
        await settle(store, lease, Succeeded("1"))
        assert (await store.jobs.delete(TENANT, lease.job_id, NOW)).artifacts == 1
        assert await store.files.get_artifact_content(*small.row) is None

    async def test_a_small_file_is_written_with_a_report(self, store: Store, worker: str) -> None:
        """A report or a settlement can carry small artifacts, which replace existing ones."""
        lease = await run_job(store)
        await reserve(store, lease, "large")
        assert await store.files.record_artifact(lease, artifact("a.txt", "large"))
        job = (TENANT, lease.job_id)
        first = small_file(job, "a.txt", "text/plain", b"hello", NOW)
        second = small_file(job, "a.txt", "text/plain", b"bye", NOW)
        other = small_file(job, "b.txt", "text/plain", b"", NOW)
        said = Report(phase="writing", files=(first,))
        stale = lease._replace(fence=lease.fence - 1)
        assert not await store.workers.report(stale, said, NOW)
        assert [file.key for file in (await job_of(store, lease)).artifacts] == ["large"]
        assert await store.workers.report(lease, said, NOW)
        assert (await job_of(store, lease)).artifacts == (first.artifact,)
        assert await store.files.get_artifact_content(*job, "a.txt") == first.content
        assert await unneeded(store, NOW) == ["large"]
        end = Settlement(lease, Succeeded("1"), Report(files=(second, other)))
        assert await store.workers.settle([end], NOW) == [True]
        assert await store.workers.settle([end], NOW) == [True], "told twice"
        ended = await job_of(store, lease)
        assert ended.state is State.SUCCEEDED
        assert ended.artifacts == (second.artifact, other.artifact)
        assert await store.files.get_artifact_content(*job, "a.txt") == second.content
        assert await store.files.get_artifact_content(*job, "b.txt") == ""

    async def test_of_ends_that_are_settled_together_each_has_its_files(
        self, store: Store, worker: str
    ) -> None:
        """Each settlement of a set stores its own artifacts, or none if it has none."""
        leases = [await run_job(store) for _ in range(3)]
        files = [
            small_file((TENANT, lease.job_id), "a.txt", "text/plain", lease.job_id.encode(), NOW)
            for lease in leases[:2]
        ]
        ends = [
            Settlement(leases[0], Succeeded("1"), Report(files=(files[0],))),
            Settlement(leases[1], GaveUp(Failure("bad", "no")), Report(files=(files[1],))),
            Settlement(leases[2], Succeeded("3")),
        ]
        assert await store.workers.settle(ends, NOW) == [True] * 3
        for lease, kept in zip(leases, [*((file.artifact,) for file in files), ()], strict=True):
            assert (await job_of(store, lease)).artifacts == kept

    async def test_a_stale_lease_leaves_no_file(self, store: Store, worker: str) -> None:
        """A stale lease and the lease of a finished job record nothing; both writes are counted."""
        lease = await run_job(store)
        await reserve(store, lease, "file")
        stale = lease._replace(fence=lease.fence - 1)
        assert not await store.files.record_artifact(stale, artifact("a.txt", "file"))
        await settle(store, lease, Succeeded("1"))
        assert not await store.files.record_artifact(lease, artifact("a.txt", "file"))
        assert (await job_of(store, lease)).artifacts == ()
        assert (await store.maintenance.read_counters())["stale_writes"] == 2
        assert await unneeded(store) == ["file"]

    async def test_a_file_whose_blob_is_gone_is_not_listed(self, store: Store, worker: str) -> None:
        """Recording an artifact whose blob is gone raises `BlobGone` and changes nothing."""
        lease = await run_job(store)
        with pytest.raises(BlobGone):
            await store.files.record_artifact(lease, artifact("a.txt", "never-noted"))
        assert (await job_of(store, lease)).artifacts == ()

    async def test_a_job_leaves_only_so_many_files(self, store: Store, worker: str) -> None:
        """A job at its artifact limit rejects new names but can still replace artifacts."""
        lease = await run_job(store)
        for number in range(MOST_OF_A_JOB):
            await reserve(store, lease, f"key-{number}")
            await store.files.record_artifact(lease, artifact(f"{number}.txt", f"key-{number}"))
        await reserve(store, lease, "more")
        with pytest.raises(Conflict):
            await store.files.record_artifact(lease, artifact("more.txt", "more"))
        assert await store.files.record_artifact(lease, artifact("0.txt", "more"))
        assert len((await job_of(store, lease)).artifacts) == MOST_OF_A_JOB
