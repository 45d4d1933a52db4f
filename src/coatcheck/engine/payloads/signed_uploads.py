"""Uploads that a client writes directly to the blob store, at a signed address.

1. The client declares the file. A blob is reserved without an owner, like any other before its
   bytes are written, and the declaration is recorded under the id that the upload will have.
2. The client gets an address that can write only this blob, for `SIGNED_MS`, and writes the bytes.
3. The client completes the upload. The blob store copies the bytes to a reserved key for which no
   address exists. The copy is read once, counted and hashed. If it matches the declaration, the
   upload is recorded like any other. Otherwise the bytes are removed, and the client may write them
   again.

The address stays writable until it expires, whatever happens to the upload. So the upload refers to
the copy, which cannot change after the check. The row of the first blob stays until the address has
expired; the sweep then removes bytes that were written late or were never completed. The
declaration expires earlier, so that no copy is made from bytes that are being removed.

If two requests complete one upload at the same time, both make a copy. The first one to record the
upload wins, and the sweep removes the other copy.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.clock import Clock
from coatcheck.engine.payloads.payloads import RESERVED_MS, PayloadStore
from coatcheck.engine.submit.tenant_bounds import put_bounded
from coatcheck.errors import (
    BlobGone,
    Conflict,
    InvalidPayload,
    NoSignedUploads,
    NotFound,
    TooLarge,
)
from coatcheck.model.artifact import check_content_type
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.record import Record
from coatcheck.model.upload import (
    NO_SUCH_UPLOAD,
    UNUSED_UPLOAD_TTL_MS,
    StoredUpload,
    check_file_name,
)
from coatcheck.store.base import Store

if TYPE_CHECKING:
    from coatcheck.blobs.base import BlobDigest

COLLECTION = "signed-uploads"
# How long an address can be written to, and how long its upload can be completed.
SIGNED_MS = 3_600_000
COMPLETED_WITHIN_MS = RESERVED_MS // 2
# How many incomplete uploads a tenant may have.
MOST_BEGUN = 10_000


class DeclaredUpload(NamedTuple):
    """A file that a client is about to write. `sha256` is None if it is not known yet."""

    size: int
    sha256: str | None = None
    name: str | None = None
    content_type: str | None = None


class SignedUpload(NamedTuple):
    """A signed address for one file, with the required headers and the expiry time."""

    id: str
    url: str
    headers: Mapping[str, str]
    expires_at: int


class SignedUploads:
    """The uploads of one store that have begun and are not complete."""

    def __init__(
        self, store: Store, payload_store: PayloadStore, clock: Clock, new_id: Callable[[], str]
    ) -> None:
        self._store = store
        self._payload_store = payload_store
        self._clock = clock
        self._new_id = new_id

    async def begin(self, file: DeclaredUpload, tenant: str = DEFAULT_TENANT) -> SignedUpload:
        """Return a signed address for a file.

        Raises InvalidInput, and NoSignedUploads if the blob store cannot sign addresses.
        """
        name = check_file_name(file.name)
        media_type = check_content_type(file.content_type, name or "")
        upload_id = self._new_id()
        address = await self._payload_store.sign(_written_at(upload_id), SIGNED_MS / 1000)
        if address is None:
            raise NoSignedUploads("this server's blob store signs no addresses; send the file here")
        now = self._clock.now()
        blob = BlobName(tenant, NOBODY, _written_at(upload_id))
        await self._store.files.reserve_blob(blob, now + RESERVED_MS)
        value = json.dumps(file._replace(name=name, content_type=media_type)._asdict())
        until = now + COMPLETED_WITHIN_MS
        record = Record(tenant, COLLECTION, upload_id, value, 0, now, until)
        await put_bounded(self._store, record, MOST_BEGUN)
        return SignedUpload(upload_id, *address, now + SIGNED_MS)

    async def find(self, upload_id: str, tenant: str) -> DeclaredUpload | None:
        """Return the declaration of an incomplete upload."""
        found = await self._store.records.get_record(
            tenant, COLLECTION, upload_id, self._clock.now()
        )
        return None if found is None else DeclaredUpload(**json.loads(found.value))

    async def give_up(self, upload_id: str, tenant: str) -> bool:
        """Delete an incomplete upload and its bytes; return False if there is none."""
        if not await self._store.records.delete_record(tenant, COLLECTION, upload_id):
            return False
        await self._payload_store.clear(_written_at(upload_id))
        return True

    async def complete(self, upload_id: str, tenant: str = DEFAULT_TENANT) -> StoredUpload:
        """Record the upload that a client has written. A repeated call returns the same upload.

        Raises NotFound, Conflict if nothing was written yet, and InvalidPayload if the bytes do not
        match the declaration.
        """
        file = await self.find(upload_id, tenant)
        there = await self._store.files.get_upload(tenant, upload_id)
        if file is None or there is not None:
            return _known(there)
        copy = BlobName(tenant, NOBODY, f"uploads/{upload_id}/{secrets.token_hex(16)}")
        try:
            written = await self._payload_store.copy_unowned(
                _written_at(upload_id), copy, file.size
            )
        except BlobGone:
            if await self.find(upload_id, tenant) is None:  # a concurrent request has cleared it
                return _known(await self._store.files.get_upload(tenant, upload_id))
            raise Conflict("nothing was written to the signed address yet") from None
        except TooLarge:
            said = f"more than {file.size:,} bytes"
            raise await self._refusal(upload_id, "/size", said) from None
        if written.size != file.size:
            await self._payload_store.remove([copy])
            said = f"{written.size:,} bytes, not {file.size:,}"
            raise await self._refusal(upload_id, "/size", said)
        if file.sha256 not in (None, written.sha256):
            await self._payload_store.remove([copy])
            raise await self._refusal(upload_id, "/sha256", "bytes of another SHA-256")
        return await self._make_known(upload_id, file, copy, written)

    async def _make_known(
        self, upload_id: str, file: DeclaredUpload, copy: BlobName, written: BlobDigest
    ) -> StoredUpload:
        tenant, now = copy.tenant, self._clock.now()
        media_type = check_content_type(file.content_type, file.name or "")
        upload = StoredUpload(
            upload_id, file.name, media_type, *written, copy.key, now, now + UNUSED_UPLOAD_TTL_MS
        )
        if await self.find(upload_id, tenant) is None:  # completed by another request, or deleted
            await self._payload_store.remove([copy])
        else:
            await self._store.files.put_upload(tenant, upload)
            await self._store.records.delete_record(tenant, COLLECTION, upload_id)
            await self._payload_store.clear(_written_at(upload_id))
        return _known(await self._store.files.get_upload(tenant, upload_id))

    async def _refusal(self, upload_id: str, pointer: str, said: str) -> InvalidPayload:
        await self._payload_store.clear(_written_at(upload_id))
        words = f"{said} were written; it is removed, and can be written again"
        return InvalidPayload(words, [(pointer, words)])


def _written_at(upload_id: str) -> str:
    return f"signed/{upload_id}"


def _known(upload: StoredUpload | None) -> StoredUpload:
    if upload is None:
        raise NotFound(NO_SUCH_UPLOAD)
    return upload
