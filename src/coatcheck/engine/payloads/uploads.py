"""Files that are uploaded before the job that needs them.

1. A blob is reserved without an owner, and the bytes are written while they arrive
   (`engine/payloads/payloads.py`).
2. The upload is recorded under its id and waits for a job for `UNUSED_UPLOAD_TTL_MS`.
3. The submit whose input names the upload takes ownership of it, in its own transaction: one job,
   of one tenant. From then on the upload lives as long as that job's input. A second job is
   rejected.

A crash before 2 leaves a blob without an owner, and an upload that no job takes over is one too:
the sweep removes both. A repeated upload with one idempotency key returns the first upload, and is
rejected while the first is in progress (`engine/payloads/upload_idempotency.py`).

If the blob store can sign addresses (object stores), a client may write the bytes there itself and
continue with 2 after they were checked (`signed_uploads.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.clock import Clock
from coatcheck.engine.open_requests import TenantOpenLimit
from coatcheck.engine.payloads.payloads import PayloadStore
from coatcheck.engine.payloads.signed_uploads import SignedUploads
from coatcheck.engine.payloads.upload_idempotency import hold, stands_for_one
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.errors import InvalidPayload, KeyReused, NotFound
from coatcheck.model.artifact import check_content_type
from coatcheck.model.job import DEFAULT_TENANT, JobInsert
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.upload import (
    LARGEST_UPLOAD,
    NO_SUCH_UPLOAD,
    UNUSED_UPLOAD_TTL_MS,
    StoredUpload,
    check_file_name,
)
from coatcheck.store.base import Store

if TYPE_CHECKING:
    from coatcheck.blobs.blobs import Source


class Uploaded(NamedTuple):
    """An upload, and whether an earlier request with the same idempotency key has created it."""

    upload: StoredUpload
    replayed: bool


class Uploads:
    """The uploads of one store."""

    def __init__(
        self,
        store: Store,
        payload_store: PayloadStore,
        clock: Clock,
        new_id: Callable[[], str],
        in_flight: TenantOpenLimit,
    ) -> None:
        self._store = store
        self._payload_store = payload_store
        self._clock = clock
        self._new_id = new_id
        self._in_flight = in_flight
        self.limit = LARGEST_UPLOAD
        self.signed = SignedUploads(store, payload_store, clock, new_id)

    async def receive(
        self,
        source: Source,
        name: str | None = None,
        content_type: str | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        key: str | None = None,
        limit: int | None = None,
        kept_ms: int = UNUSED_UPLOAD_TTL_MS,
    ) -> Uploaded:
        """Store a file of at most `limit` bytes while it arrives.

        The upload waits for its job for `kept_ms`. A failed upload leaves nothing behind; the
        remains of a crash are not kept longer than `kept_ms` either. Raises TooLarge, InvalidInput,
        KeyReused, UploadInProgress, TooManyOpen, and any error of the source.
        """
        with self._in_flight.hold(tenant):
            return await self._receive_once(source, name, content_type, tenant, key, limit, kept_ms)

    async def _receive_once(
        self,
        source: Source,
        name: str | None,
        content_type: str | None,
        tenant: str,
        key: str | None,
        limit: int | None,
        kept_ms: int,
    ) -> Uploaded:
        most = self.limit if limit is None else limit
        name = check_file_name(name)
        media_type = check_content_type(content_type, name or "")
        upload_id = self._new_id()
        if key is None:
            upload = await self._receive(upload_id, source, name, media_type, tenant, most, kept_ms)
            return Uploaded(upload, replayed=False)
        held = await hold(self._store, self._clock, tenant, key, upload_id)
        try:
            if isinstance(source, AsyncIterator):
                source = held.renewed_by(source)
            upload = await self._receive(upload_id, source, name, media_type, tenant, most, kept_ms)
        except BaseException:
            await asyncio.shield(held.release())
            raise
        once = IdempotencyKey(key, f"upload {upload.sha256} {name} {media_type}")
        try:
            first = await held.settle(once, upload)
        except KeyReused:
            await self.delete(upload.id, tenant)
            raise
        if first != upload:
            await self.delete(upload.id, tenant)
        return Uploaded(first, replayed=first != upload)

    async def is_replay(self, key: str | None, tenant: str) -> bool:
        """Return whether an upload with this idempotency key would repeat a recorded one."""
        return key is not None and await stands_for_one(self._store, self._clock, tenant, key)

    async def _receive(
        self,
        upload_id: str,
        source: Source,
        name: str | None,
        media_type: str,
        tenant: str,
        most: int,
        kept_ms: int,
    ) -> StoredUpload:
        blob = BlobName(tenant, NOBODY, f"uploads/{upload_id}")
        written = await self._payload_store.put_unowned(blob, source, most, kept_ms)
        now = self._clock.now()
        upload = StoredUpload(
            upload_id,
            name,
            media_type,
            written.size,
            written.sha256,
            blob.key,
            now,
            now + kept_ms,
        )
        await self._store.files.put_upload(tenant, upload)
        return upload

    async def get(self, upload_id: str, tenant: str = DEFAULT_TENANT) -> StoredUpload:
        """Return the record of an upload that no job has taken over; raises NotFound."""
        found = await self._store.files.get_upload(tenant, upload_id)
        if found is not None and found.expires_at > self._clock.now():
            return found
        if await self.signed.find(upload_id, tenant) is not None:
            raise NotFound("this upload is not complete: write the file to its address, and say so")
        raise NotFound(NO_SUCH_UPLOAD)

    async def delete(self, upload_id: str, tenant: str = DEFAULT_TENANT) -> None:
        """Delete an upload that no job has taken over; raises NotFound."""
        if await self._store.files.delete_upload(tenant, upload_id):
            await self._payload_store.sweep()
        elif not await self.signed.give_up(upload_id, tenant):
            raise NotFound(NO_SUCH_UPLOAD)

    # --- job inputs

    async def with_uploads(
        self, jobs: Sequence[JobInsert], ids: Sequence[Sequence[str]]
    ) -> list[JobInsert]:
        """Return new jobs with the uploads that their inputs name; raises InvalidPayload."""
        return [
            job._replace(uploads=await self._find(job.tenant, named)) if named else job
            for job, named in zip(jobs, ids, strict=True)
        ]

    async def _find(self, tenant: str, ids: Sequence[str]) -> tuple[StoredUpload, ...]:
        found = []
        for upload_id in ids:
            try:
                found.append(await self.get(upload_id, tenant))
            except NotFound as error:
                raise InvalidPayload(str(error), [("/input", str(error))]) from None
        return tuple(found)

    async def with_upload_copies(self, source_id: str, job: JobInsert) -> JobInsert:
        """Return a fork with copies of the uploads of the job it is forked from."""
        there = await self._store.files.list_uploads(job.tenant, source_id)
        copies = []
        for upload in there:
            pieces = await self._payload_store.stream(upload)
            copy = await self._payload_store.put(job.tenant, job.id, pieces, upload.size)
            copies.append(upload._replace(key=copy.key))
        return job._replace(uploads=tuple(copies))
