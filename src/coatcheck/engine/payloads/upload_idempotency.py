"""Uploads under an idempotency key: one of them at a time, and one in the end.

1. Whoever begins an upload under a key notes it as under way: with an owner (the id that the upload
   will have), and for `HELD_MS`. Who comes meanwhile is refused, and told to come back.
2. While bytes arrive the note is renewed, so that it holds as long as the upload goes on. A body
   that is silent for longer than half of that is given up by the server anyway.
3. When the upload is on record, the note becomes what the key stands for: this upload, these bytes.

An upload that fails takes its note back. After a crash nobody renews it: it is void when its time
has passed, and whatever was written is an upload that no job takes over, or a blob that nobody has
named. An owner that was frozen for that long may find another upload under its key: that one
counts, and its own is removed.

Every change names the version it was made on, so no owner writes over another's.
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
# When to come back, for those who are refused: most uploads are through by then.
COME_BACK_S = 2


class UploadReservation:
    """A key that an upload is under way for."""

    def __init__(self, store: Store, clock: Clock, note: Record) -> None:
        self._store = store
        self._clock = clock
        self._note = note
        self._lost = False

    async def renewed_by(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass pieces on, and hold the key while they come."""
        async for piece in pieces:
            now = self._clock.now()
            if not self._lost and now - self._note.updated_at >= RENEWED_AFTER_MS:
                await self._write(replace(self._note, updated_at=now, expires_at=now + HELD_MS))
            yield piece

    async def release(self) -> None:
        """Let the key go: the upload has failed."""
        now = self._clock.now()
        with contextlib.suppress(StoreError):  # then it runs out by itself
            await self._write(replace(self._note, updated_at=now, expires_at=now))

    async def settle(self, once: IdempotencyKey, mine: StoredUpload) -> StoredUpload:
        """Note what the key stands for, unless that is settled; return which upload it is. Raises
        KeyReused where that one was of another request.
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
    """Begin an upload under a key, also where one is there that it may turn out to repeat; raises
    UploadInProgress while another one goes on.
    """
    while True:
        now = clock.now()
        note = Record(tenant, COLLECTION, key, json.dumps({"owner": owner}), 0, now, now + HELD_MS)
        written = await store.records.put_record(note, expected_version=0)
        if written is not None:
            return UploadReservation(store, clock, written)
        found = await store.records.get_record(tenant, COLLECTION, key, now)
        if found is None:
            continue  # it has expired meanwhile
        if _upload_in(found) is None:
            raise UploadInProgress(
                "an upload under this idempotency key is under way; come back when it is through",
                COME_BACK_S,
            )
        return _Settled(store, clock, found)


async def stands_for_one(store: Store, clock: Clock, tenant: str, key: str) -> bool:
    """Tell whether an upload under this key is on record, so that another one repeats it."""
    found = await store.records.get_record(tenant, COLLECTION, key, clock.now())
    return found is not None and _upload_in(found) is not None


class _Settled(UploadReservation):
    """A key that stands for an upload already: nothing is held, and nothing is let go."""

    async def renewed_by(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            yield piece

    async def release(self) -> None:
        return

    async def settle(self, once: IdempotencyKey, mine: StoredUpload) -> StoredUpload:
        self._note = replace(self._note, version=0)  # it is to be found, not to be written over
        return await super().settle(once, mine)


def _upload_in(found: Record) -> StoredUpload | None:
    there = json.loads(found.value)
    return StoredUpload(*there["upload"]) if "upload" in there else None
