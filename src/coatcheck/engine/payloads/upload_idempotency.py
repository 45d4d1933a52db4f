"""Idempotency keys of uploads: one upload in progress at a time, and one in the end.

1. An upload that begins under a key records a reservation, with an owner (the id that the upload
   will have) and for `HELD_MS`. Meanwhile, other requests with this key are rejected with a time to
   retry.
2. While bytes arrive, the reservation is renewed, so it lasts as long as the upload. The server
   aborts a body that is silent for longer than half of `HELD_MS` anyway.
3. When the upload is recorded, the reservation is replaced by the upload and its fingerprint.

A failed upload releases its reservation. After a crash nobody renews the reservation, so it
expires; any bytes are then an upload that no job takes over, or a blob without an owner. An owner
that was frozen for that long may find another upload under its key. In that case the other upload
counts, and the owner removes its own.

Every write names the version it was based on, so no owner overwrites another's record.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace

from coatcheck.clock import Clock
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.errors import StoreError, UploadInProgress
from coatcheck.model.record import Record
from coatcheck.model.upload import StoredUpload
from coatcheck.store.base import Store

COLLECTION = "upload-keys"
HELD_MS = 60_000
RENEWED_AFTER_MS = 15_000
# The retry time for rejected requests: most uploads have finished by then.
COME_BACK_S = 2


class UploadReservation:
    """An idempotency key with an upload in progress."""

    def __init__(self, store: Store, clock: Clock, note: Record) -> None:
        self._store = store
        self._clock = clock
        self._note = note
        self._lost = False

    async def renewed_by(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass pieces through and renew the reservation while they arrive."""
        async for piece in pieces:
            now = self._clock.now()
            if not self._lost and now - self._note.updated_at >= RENEWED_AFTER_MS:
                await self._write(replace(self._note, updated_at=now, expires_at=now + HELD_MS))
            yield piece

    async def release(self) -> None:
        """Release the key after the upload has failed."""
        now = self._clock.now()
        with contextlib.suppress(StoreError):  # the reservation expires anyway
            await self._write(replace(self._note, updated_at=now, expires_at=now))

    async def settle(self, once: IdempotencyKey, mine: StoredUpload) -> StoredUpload:
        """Record the upload of this key unless one is recorded; return the recorded upload.

        Raises KeyReused if the recorded upload belongs to a different request.
        """
        held = once.stored(self._clock.now())
        value = json.dumps({"fingerprint": held.fingerprint, "upload": mine})
        final = replace(
            self._note, value=value, updated_at=self._clock.now(), expires_at=held.expires_at
        )
        version = self._note.version
        while await self._store.records.put_record(final, expected_version=version) is None:
            found = await self._store.records.get_record(
                final.tenant, COLLECTION, final.key, self._clock.now()
            )
            version = 0 if found is None else found.version
            first = None if found is None else _upload_in(found)
            if found is not None and first is not None:
                once.check(json.loads(found.value)["fingerprint"])
                return first
        return mine

    async def _write(self, note: Record) -> None:
        written = await self._store.records.put_record(note, expected_version=self._note.version)
        self._lost = written is None
        self._note = written or self._note


async def hold(store: Store, clock: Clock, tenant: str, key: str, owner: str) -> UploadReservation:
    """Reserve a key for an upload, even if it may repeat a recorded one.

    Raises UploadInProgress while another upload with this key is in progress.
    """
    while True:
        now = clock.now()
        note = Record(tenant, COLLECTION, key, json.dumps({"owner": owner}), 0, now, now + HELD_MS)
        written = await store.records.put_record(note, expected_version=0)
        if written is not None:
            return UploadReservation(store, clock, written)
        found = await store.records.get_record(tenant, COLLECTION, key, now)
        if found is None:
            continue  # the reservation has just expired
        if _upload_in(found) is None:
            raise UploadInProgress(
                "an upload under this idempotency key is under way; come back when it is through",
                COME_BACK_S,
            )
        return _Settled(store, clock, found)


async def stands_for_one(store: Store, clock: Clock, tenant: str, key: str) -> bool:
    """Return whether an upload is recorded under this key, so that another one repeats it."""
    found = await store.records.get_record(tenant, COLLECTION, key, clock.now())
    return found is not None and _upload_in(found) is not None


class _Settled(UploadReservation):
    """A key with a recorded upload: there is no reservation to renew or release."""

    async def renewed_by(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            yield piece

    async def release(self) -> None:
        return

    async def settle(self, once: IdempotencyKey, mine: StoredUpload) -> StoredUpload:
        self._note = replace(self._note, version=0)  # finds the record, never overwrites it
        return await super().settle(once, mine)


def _upload_in(found: Record) -> StoredUpload | None:
    there = json.loads(found.value)
    return StoredUpload(*there["upload"]) if "upload" in there else None
