"""The records part of the SQLite store."""

from __future__ import annotations

from dataclasses import astuple

from coatcheck.model.audit import AuditEntry
from coatcheck.model.record import Record
from coatcheck.store.sqlite import audit as audit_log
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer


class SQLiteRecords:
    """The verbs on records."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> Record | None:
        """Write a record."""
        return await self._writer.write(
            lambda tx: put(tx, record, expected_version, audit), Urgency.SUBMIT
        )

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a record."""
        row = await self._reader.one_inline(SQL.record, (tenant, collection, key))
        found = None if row is None else Record(*row)
        return None if found is None or found.has_expired(now) else found

    async def count_records(self, tenant: str, collection: str, now: int, most: int) -> int:
        """Count the records of a collection."""
        rows = await self._reader.all(SQL.count_records, (tenant, collection, now, most))
        return int(rows[0][0])

    async def list_records(
        self,
        tenant: str,
        collection: str,
        now: int,
        after: str = "",
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        """List the records of a collection."""
        values = (tenant, collection, after, now, limit, offset)
        rows = await self._reader.all(SQL.records_after, values)
        return [Record(*row) for row in rows]

    async def delete_record(
        self, tenant: str, collection: str, key: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a record."""
        return await self._writer.write(
            lambda tx: _delete(tx, tenant, collection, key, audit), Urgency.SUBMIT
        )


def put(
    tx: Transaction,
    record: Record,
    expected_version: int | None,
    audit: AuditEntry | None = None,
) -> Record | None:
    """Write a record in place of the expected version."""
    row = tx.one(SQL.record, (record.tenant, record.collection, record.key))
    there = None if row is None else Record(*row)
    written = record.over(there, expected_version)
    if written is not None:
        tx.execute(SQL.put_record, astuple(written))
        audit_log.record(tx, audit)
    return written


def _delete(
    tx: Transaction, tenant: str, collection: str, key: str, audit: AuditEntry | None
) -> bool:
    if tx.one(SQL.record, (tenant, collection, key)) is None:
        return False
    tx.execute(SQL.delete_record, (tenant, collection, key))
    audit_log.record(tx, audit)
    return True
