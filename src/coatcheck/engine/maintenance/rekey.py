"""Rekeying: encrypts data of an older key with the current one, so that the older can be dropped.

*Texts* are read in slices, and each is replaced only if it is unchanged (`store/rekey.py`). Only
the columns in which the store writes envelopes are read, so user text that looks like an envelope
is no obstacle. A text that cannot be decrypted is logged, counted and skipped. Text that was stored
before there was a key stays as it is, except for webhook secrets: those are always encrypted
(`store/encrypted/secrets.py`). Without encryption keys, secrets are encrypted with the pepper, and
nothing else is rekeyed.

*A blob* is rewritten under its own key, because a reader, such as a worker that has claimed its
job, must find it there. The blob may be removed meanwhile, with its job; then its bytes must not
come back. So a note of the blob is recorded first. After the write, the blob is deleted unless its
row still exists. A note that is found at the start belongs to an interrupted run: its blob is
checked in the same way.

Two concurrent runs would write the same blobs. So a run holds a record of its own, renewed with
each slice and each blob, that prevents another run from starting.

Rekeying blocks nothing, and an interruption loses nothing: finished work stays, and the next run
finds the rest. Servers that still encrypt with the older key add more data under it. Restart them
with the new key first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coatcheck.clock import Clock
from coatcheck.crypto.encryption import PREFIX, Keyring, is_envelope
from coatcheck.errors import BlobDamaged, BlobGone, Conflict, KeyMissing
from coatcheck.model.event import EventType
from coatcheck.model.payload import BlobName
from coatcheck.model.record import Record
from coatcheck.model.webhook import SECRET_PREFIX
from coatcheck.store.base import Store
from coatcheck.store.encrypted.secrets import SecretKeys
from coatcheck.store.rekey import SECRETS, EncryptedColumn, StoredText, TextChange

if TYPE_CHECKING:
    from coatcheck.blobs.blobs import Blobs

log = logging.getLogger(__name__)

AT_ONCE = 100
NOWHERE = "\x01"  # in no text: JSON escapes it
NOTES = "resealing"
RUNS = "resealing-run"
# Longer than rekeying the largest blob takes.
HELD_MS = 600_000
# No tenant can have this name, so no tenant finds the notes among its records.
SYSTEM_TENANT = "-"

Progress = Callable[["RekeyProgress"], None]


@dataclass
class RekeyProgress:
    """The progress of a run.

    `left` counts data that could not be decrypted: the key is missing, or the data is damaged.
    `unreadable_messages` could not be decrypted either, but may be user text that an older version
    stored in clear, so they are no evidence of a problem.
    """

    texts: int = 0
    blobs: int = 0
    looked_at: int = 0
    left: int = 0
    missing: str = ""  # the error of the first one
    unreadable_messages: int = 0


class Rekeyer:
    """Encrypts a store and its blobs with the first key, and webhook secrets with theirs."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        keys: Keyring | None,
        secrets: SecretKeys | Keyring,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._keys = keys
        self._secrets = secrets
        self._clock = clock
        self._progress = progress
        self._run: Record | None = None
        self.done = RekeyProgress()

    async def run(self) -> RekeyProgress:
        """Rekey everything; raises Conflict while another run is in progress."""
        await self._hold()
        try:
            await self._all_secrets()
            if self._keys is not None:
                for place in self._store.rekey.columns:
                    if place != SECRETS:
                        await self._texts_in(place, self._keys)
                await self._look_after_notes()
                await self._all_blobs()
            # The previous ciphertext must not remain on the disk.
            await self._store.maintenance.erase_deleted()
        finally:
            if self._run is not None:
                await self._store.records.delete_record(SYSTEM_TENANT, RUNS, RUNS)
        return self.done

    async def _hold(self) -> None:
        """Acquire or renew the record that excludes other runs."""
        now = self._clock.now()
        run = Record(SYSTEM_TENANT, RUNS, RUNS, "{}", 0, now, now + HELD_MS)
        version = 0 if self._run is None else self._run.version
        self._run = await self._store.records.put_record(run, expected_version=version)
        if self._run is None:
            raise Conflict("another run does this, or was killed less than ten minutes ago")

    # --- texts

    async def _all_secrets(self) -> None:
        def change(secret: StoredText) -> str:
            tenant = str(secret.key[0])
            return self._secrets.encrypt(self._secrets.decrypt(secret.text, tenant), tenant)

        await self._replace(SECRETS, SECRET_PREFIX, PREFIX, change)  # those in clear
        await self._replace(SECRETS, PREFIX, f"{PREFIX}{self._secrets.first}:", change)

    async def _texts_in(self, place: EncryptedColumn, keys: Keyring) -> None:
        def change(text: StoredText) -> str:
            tenant, *others = text.key
            about = None
            if place.table == "messages":  # compared encrypted, see `EncryptedJobs.send_event`
                job_id, name, _ = others
                about = f"{job_id}\0{name}\0{text.beside[0]}"
            if place.members and not text.text.startswith(PREFIX):
                return self._with_members(place, text, keys)
            return keys.reencrypt(text.text, str(tenant), about)

        # Members in clear may contain anything, so the text's content cannot exclude it.
        lacking = NOWHERE if place.members else f"{PREFIX}{keys.first}:"
        await self._replace(place, PREFIX, lacking, change)

    def _with_members(self, place: EncryptedColumn, text: StoredText, keys: Keyring) -> str:
        """Re-encrypt the members of a JSON object that are envelopes."""
        if place.table == "events" and text.beside[0] != EventType.PROGRESS:
            return text.text  # encrypted as a whole, or in clear
        fields = json.loads(text.text)
        changed = False
        for name in place.members:
            value = fields.get(name)
            if isinstance(value, str) and is_envelope(value):
                try:
                    fields[name] = keys.reencrypt(value, str(text.key[0]))
                except (KeyMissing, BlobDamaged) as error:
                    self.done.unreadable_messages += 1
                    _log_unreadable(place, text, error)
                changed = changed or fields[name] != value
        return json.dumps(fields) if changed else text.text

    async def _replace(
        self, place: EncryptedColumn, having: str, lacking: str, change: Callable[[StoredText], str]
    ) -> None:
        after = None
        while found := await self._store.rekey.find_texts(place, having, lacking, after, AT_ONCE):
            changes = []
            for text in found:
                try:
                    new = change(text)
                except (KeyMissing, BlobDamaged) as error:
                    self._leave(error)
                    _log_unreadable(place, text, error)
                else:
                    if new != text.text:
                        changes.append(TextChange(text.key, text.text, new))
            if changes:
                self.done.texts += await self._store.rekey.replace_texts(place, changes)
            after = found[-1].key
            await self._hold()
            self._progress(self.done)

    # --- blobs

    async def _all_blobs(self) -> None:
        after = None
        while found := await self._store.rekey.list_blobs(after, AT_ONCE):
            for blob in found:
                await self._blob(blob)
                self.done.looked_at += 1
                self._progress(self.done)
            after = found[-1]

    async def _blob(self, blob: BlobName) -> None:
        try:
            if not await self._blobs.is_outdated(blob.key):
                return
            await self._hold()
            await self._note(blob)
            await self._blobs.reencrypt(blob.key)
        except BlobGone:
            return  # it is being written, or was removed
        except (KeyMissing, BlobDamaged) as error:
            self._leave(error)
            return
        self.done.blobs += 1
        await self._drop_unless_wanted(blob)

    async def _note(self, blob: BlobName) -> None:
        note = Record(SYSTEM_TENANT, NOTES, blob.key, json.dumps(blob), 0, self._clock.now())
        await self._store.records.put_record(note)

    async def _drop_unless_wanted(self, blob: BlobName) -> None:
        if not await self._store.rekey.has_blob(blob):
            await self._blobs.delete(blob.key)
        await self._store.records.delete_record(SYSTEM_TENANT, NOTES, blob.key)

    async def _look_after_notes(self) -> None:
        now = self._clock.now()
        while notes := await self._store.records.list_records(SYSTEM_TENANT, NOTES, now):
            for note in notes:
                await self._drop_unless_wanted(BlobName(*json.loads(note.value)))

    def _leave(self, error: Exception) -> None:
        self.done.left += 1
        self.done.missing = self.done.missing or str(error)


def _log_unreadable(place: EncryptedColumn, text: StoredText, error: Exception) -> None:
    # Tenant and id only: the rest of a key may be a secret's envelope.
    tenant, id_ = text.key[:2]
    fields = {"table": place.table, "column": place.column, "tenant": tenant, "id": id_}
    log.warning("text not decrypted", extra={**fields, "why": str(error)})
