"""Blob storage for bytes that are too large for a row: large inputs, large results and job files.

Every blob has a row that names its owner, so cleanup never has to list a bucket:

1. A row reserves a new random key, for one job and for `RESERVED_MS`.
2. The bytes are written under that key, and nowhere else.
3. The transaction that names the blob (the job's submit, the settle with its result, the fenced
   write of a file) takes ownership of it. From then on the blob lives as long as its job.

A small file of a job skips all three steps: its bytes are written into the row that names it.

A crash between 1 and 3 leaves a reserved row, and perhaps bytes. The sweep of any process removes
both once the reservation has expired. The process that finds a blob to be unneeded also removes it,
such as the loser of two submits with one idempotency key. Deleting a job, by request or by
retention, marks all its blobs for removal in the same transaction; replacing a file marks the
previous one. A blob that is marked for removal, or was not named in time, can no longer be named.
The bytes are removed first, then the row: a crash in between only means that the bytes are removed
twice.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from coatcheck.clock import Clock
from coatcheck.errors import (
    BlobGone,
    BlobStoreUnavailable,
    StaleLease,
    StoreError,
    StoreUnavailable,
)
from coatcheck.model.artifact import (
    IN_ROW_BYTES,
    Artifact,
    check_content_type,
    check_name,
    small_file,
)
from coatcheck.model.job import Failure, Job, JobInsert, Lease
from coatcheck.model.outcome import GaveUp, Outcome, Released, Succeeded
from coatcheck.model.payload import (
    BlobName,
    BlobReference,
    fits_inline,
    is_reference,
    read_reference,
    write_reference,
)
from coatcheck.model.upload import StoredUpload
from coatcheck.store.base import Settlement, Store

if TYPE_CHECKING:
    from coatcheck.blobs.base import BlobDigest, SignedAddress
    from coatcheck.blobs.blobs import Blobs, Source

log = logging.getLogger(__name__)

# Longer than the slowest upload that is worth waiting for.
RESERVED_MS = 6 * 3_600_000
# A payload has already been in memory, so this limit only keeps the byte count honest.
LARGEST_PAYLOAD = 1 << 40
LARGEST_ARTIFACT = 5_000_000_000
# A job's response does not include a larger result; the result has its own URL.
MAX_INLINE_RESULT = 1024 * 1024
AT_ONCE = 200


class PayloadStore:
    """The blobs of one store's jobs.

    Without a blob store, every payload stays in its row and jobs cannot save files.
    """

    def __init__(self, store: Store, blobs: Blobs | None, clock: Clock) -> None:
        self._store = store
        self._place = blobs
        self._clock = clock

    @property
    def _blobs(self) -> Blobs:
        if self._place is None:
            raise BlobStoreUnavailable("no place for blobs is known here")
        return self._place

    def is_large(self, text: str) -> bool:
        """Return whether a payload must be stored as a blob."""
        return not fits_inline(text) and self._place is not None

    async def put(self, tenant: str, job_id: str, source: Source, limit: int) -> BlobReference:
        """Write a blob for a job, which must name it before the reservation expires."""
        blob = BlobName(tenant, job_id, f"jobs/{job_id}/{secrets.token_hex(16)}")
        await self._store.files.reserve_blob(blob, self._clock.now() + RESERVED_MS)
        written = await self._blobs.put(blob.key, source, limit)
        return BlobReference(blob.key, written.size, written.sha256)

    async def put_unowned(
        self, blob: BlobName, source: Source, limit: int, within_ms: int = RESERVED_MS
    ) -> BlobDigest:
        """Write a blob that no job has named yet.

        A failed write leaves nothing behind. A job must name the blob within `within_ms`.
        """
        reserved = min(within_ms, RESERVED_MS)
        return await self._apart(blob, lambda: self._blobs.put(blob.key, source, limit), reserved)

    async def copy_unowned(self, key: str, blob: BlobName, most: int) -> BlobDigest:
        """Copy a blob that a client has written, and hash the copy.

        A failed copy leaves nothing behind.
        """
        return await self._apart(blob, lambda: self._blobs.copy(key, blob.key, most))

    async def _apart(
        self,
        blob: BlobName,
        write: Callable[[], Awaitable[BlobDigest]],
        within_ms: int = RESERVED_MS,
    ) -> BlobDigest:
        await self._store.files.reserve_blob(blob, self._clock.now() + within_ms)
        try:
            return await write()
        except BaseException:
            await asyncio.shield(self._give_up(blob))
            raise

    async def _give_up(self, blob: BlobName) -> None:
        try:
            await self.remove([blob])
        except StoreError as error:  # the sweep will remove it
            log.warning("blob reservation not released", extra={"why": str(error)})

    async def sign(self, key: str, seconds: float) -> SignedAddress | None:
        """Return a signed address for writing a blob, or None if the store cannot sign one."""
        return await self._blobs.sign(key, seconds)

    async def clear(self, key: str) -> None:
        """Remove the bytes of a blob that a client can still write to.

        The row stays, so that the sweep removes bytes that are written later or cannot be reached
        now.
        """
        try:
            await self._blobs.delete(key)
        except StoreError as error:
            log.warning("blob not removed", extra={"why": str(error)})

    async def fetch(self, blob: StoredUpload, path: Path) -> None:
        """Write a blob to a file and verify its hash; raises BlobGone, BlobDamaged."""
        await self._blobs.fetch(blob.key, blob.size, blob.sha256, path)

    async def offload(self, tenant: str, job_id: str, text: str) -> str:
        """Return the stored form of a payload: the text itself, or a reference to a new blob."""
        if not self.is_large(text):
            return text
        content = await asyncio.to_thread(text.encode)
        return write_reference(await self.put(tenant, job_id, content, LARGEST_PAYLOAD))

    async def read(self, payload: str) -> str:
        """Return the JSON text of a payload; raises BlobGone, BlobDamaged, BlobStoreUnavailable."""
        if not is_reference(payload):
            return payload
        return (await self._blobs.get(*read_reference(payload))).decode()

    async def stream(
        self, blob: BlobReference | Artifact | StoredUpload, start: int = 0, stop: int | None = None
    ) -> AsyncIterator[bytes]:
        """Open a blob and iterate over its bytes, or over the range from `start` to `stop`."""
        stop = blob.size if stop is None else stop
        if isinstance(blob, Artifact) and blob.row is not None:
            content = await self._store.files.get_artifact_content(*blob.row)
            if content is None:
                raise BlobGone(f"file {blob.name} is not there any more")
            return _as_stream(b64decode(content)[start:stop])
        return await self._blobs.stream(blob.key, start, stop)

    # --- jobs

    async def offload_inputs(self, jobs: Sequence[JobInsert]) -> list[JobInsert]:
        """Return new jobs with their large inputs offloaded."""

        async def store(number: int, job: JobInsert) -> None:
            text = await self.offload(job.tenant, job.id, job.input)
            kept[number] = job._replace(input=text)

        kept = list(jobs)
        large = [(number, job) for number, job in enumerate(jobs) if self.is_large(job.input)]
        await asyncio.gather(*(store(number, job) for number, job in large))
        return kept

    async def drop_inputs(self, jobs: Sequence[JobInsert]) -> None:
        """Remove the input blobs of jobs that were not submitted.

        The sweep removes any blob for which this fails.
        """
        names = [
            BlobName(job.tenant, job.id, read_reference(job.input).key)
            for job in jobs
            if is_reference(job.input)
        ]
        if names:
            await self.remove(names)

    async def offload_results(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Return settlements with their large results offloaded."""

        async def stored(settlement: Settlement) -> Settlement:
            lease, outcome, _ = settlement
            if not isinstance(outcome, Succeeded):
                return settlement
            result = await self.offload(lease.tenant, lease.job_id, outcome.result)
            return settlement._replace(outcome=Succeeded(result))

        return list(await asyncio.gather(*map(stored, settlements)))

    async def with_result(self, job: Job) -> Job:
        """Load an offloaded result into a job.

        The job is returned as it is if the result is too large to show inline or cannot be read
        now.
        """
        if job.result is None or not is_reference(job.result):
            return job
        if read_reference(job.result).size > MAX_INLINE_RESULT:
            return job
        try:
            return replace(job, result=await self.read(job.result))
        except StoreError as error:
            fields = {"job_id": job.id, "why": str(error)}
            log.warning("result not readable", extra=fields)
            return job

    # --- files

    async def save_artifact(
        self, lease: Lease, name: str, source: Source, content_type: str | None
    ) -> Artifact:
        """Save a file of a running job under a name; raises InvalidInput, TooLarge, StaleLease.

        If the lease is stale, the sweep removes the bytes.
        """
        check_name(name)
        media_type = check_content_type(content_type, name)
        small = await _read_small(source)
        if small is not None:
            job = (lease.tenant, lease.job_id)
            file = small_file(job, name, media_type, small, self._clock.now())
            return await self._name(lease, *file)
        written = await self.put(lease.tenant, lease.job_id, source, LARGEST_ARTIFACT)
        artifact = Artifact(
            name, media_type, written.size, written.sha256, written.key, self._clock.now()
        )
        return await self._name(lease, artifact)

    async def _name(self, lease: Lease, artifact: Artifact, content: str | None = None) -> Artifact:
        if not await self._store.files.record_artifact(lease, artifact, content):
            raise StaleLease(f"the lease on job {lease.job_id} is stale")
        return artifact

    # --- removal

    async def sweep(self) -> int:
        """Remove the bytes of all unneeded blobs; return how many blobs were removed."""
        if self._place is None:
            return 0
        removed = 0
        while True:
            found = await self._store.files.start_blob_removal(self._clock.now(), AT_ONCE)
            gone = await self.remove(found)
            removed += gone
            if gone < AT_ONCE:
                if removed:
                    log.info("blobs removed", extra={"blobs": removed})
                return removed

    async def remove(self, names: Sequence[BlobName]) -> int:
        """Remove unneeded blobs, as far as they can be reached; return how many were removed."""
        if not names:
            return 0
        ends = await asyncio.gather(
            *(self._blobs.delete(name.key) for name in names), return_exceptions=True
        )
        gone = []
        for name, end in zip(names, ends, strict=True):
            if end is None:
                gone.append(name)
            elif not isinstance(end, BlobStoreUnavailable):
                raise end
        if len(gone) < len(names):
            log.warning("blobs not removed; will retry", extra={"blobs": len(names) - len(gone)})
        if gone:
            await self._store.files.finish_blob_removal(gone)
        return len(gone)


def unreadable_input_outcome(error: StoreError, delay_ms: int) -> Outcome:
    """Return the outcome of an attempt whose input could not be read.

    While the blob store is unavailable, the job is released and the attempt does not count.
    """
    if isinstance(error, StoreUnavailable):
        return Released(delay_ms, Failure(error.code, str(error), retryable=True))
    return GaveUp(Failure("input-gone", f"the input cannot be read any more: {error}"))


async def _as_stream(content: bytes) -> AsyncIterator[bytes]:
    if content:
        yield content


async def _read_small(source: Source) -> bytes | None:
    """Read a source that fits into a row; return None, with nothing consumed, if it is larger."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source) if memoryview(source).nbytes <= IN_ROW_BYTES else None
    if isinstance(source, AsyncIterator):
        return None
    return await asyncio.to_thread(_read_small_file, source)


def _read_small_file(source: Path | IO[bytes]) -> bytes | None:
    if isinstance(source, Path):
        with source.open("rb") as file:
            return _read_small_file(file)
    if not source.seekable():
        return None
    begin = source.tell()
    content = source.read(IN_ROW_BYTES + 1)
    if len(content) <= IN_ROW_BYTES:
        return content
    source.seek(begin)
    return None
