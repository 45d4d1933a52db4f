"""The part of a store that keeps small documents, with versions and expiry."""

from __future__ import annotations

from typing import Protocol

from coatcheck.model.audit import AuditEntry
from coatcheck.model.record import Record


class RecordStore(Protocol):
    """The verbs on small documents."""

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> Record | None:
        """Write a document and return it with its new version.

        With `expected_version` (0: it must not exist) it is written only over that version; None
        is returned when another one is there. An expired document counts as absent.
        """
        ...

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a document, unless it has expired."""
        ...

    async def count_records(self, tenant: str, collection: str, now: int, most: int) -> int:
        """Count the documents of a collection that have not expired, up to `most`."""
        ...

    async def list_records(
        self,
        tenant: str,
        collection: str,
        now: int,
        after: str = "",
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        """List a collection in the order of its keys, from the one after `after`; skip `offset`
        of them first.
        """
        ...

    async def delete_record(
        self, tenant: str, collection: str, key: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a document; False when there was none."""
        ...
