"""The records part of a store: small JSON documents with versions and expiry."""

from __future__ import annotations

from typing import Protocol

from coatcheck.model.audit import AuditEntry
from coatcheck.model.record import Record


class RecordStore(Protocol):
    """The verbs on records. An expired record counts as absent."""

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> Record | None:
        """Write a record and return it with its new version.

        With `expected_version` (0: the record must not exist) it replaces only that version, and
        None is returned if the current version is another.
        """
        ...

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a record."""
        ...

    async def count_records(self, tenant: str, collection: str, now: int, most: int) -> int:
        """Count the records of a collection, up to `most`."""
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
        """List the records of a collection by key, after the key `after`, skipping `offset`."""
        ...

    async def delete_record(
        self, tenant: str, collection: str, key: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a record. Returns False if there was none."""
        ...
