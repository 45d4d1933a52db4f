"""The records part of the PostgreSQL store."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from coatcheck.model.audit import AuditEntry
from coatcheck.model.record import Record
from coatcheck.store.postgres import audit as audit_log
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements


class PostgresRecords:
    """The verbs on records."""

    def __init__(self, database: Database, sql: Statements) -> None:
        self._database = database
        self._sql = sql

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> Record | None:
        """Write a record."""
        return await self._database.run(
            lambda db: put(db, self._sql, record, expected_version, audit)
        )

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a record."""
        row = await self._database.fetchrow(self._sql.record, tenant, collection, key)
        found = None if row is None else Record(*row)
        return None if found is None or found.has_expired(now) else found

    async def count_records(self, tenant: str, collection: str, now: int, most: int) -> int:
        """Count the records of a collection."""
        row = await self._database.fetchrow(self._sql.count_records, tenant, collection, now, most)
        return int(row[0])

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
        rows = await self._database.fetch(
            self._sql.records_after, tenant, collection, after, now, limit, offset
        )
        return [Record(*row) for row in rows]

    async def delete_record(
        self, tenant: str, collection: str, key: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a record."""
        statement, place = self._sql.delete_record, (tenant, collection, key)
        return await self._database.run(
            lambda db: audit_log.delete(db, self._sql, audit, statement, *place),
            transaction=audit is not None,
        )


async def put(
    db: Any,
    sql: Statements,
    record: Record,
    expected_version: int | None = None,
    audit: AuditEntry | None = None,
) -> Record | None:
    """Write a record in place of the expected version."""
    key = (record.tenant, record.collection, record.key)
    await db.execute(sql.lock_record, json.dumps(key))
    row = await db.fetchrow(sql.record, *key)
    written = record.over(None if row is None else Record(*row), expected_version)
    if written is not None:
        await db.execute(sql.put_record, *astuple(written))
        await audit_log.record(db, sql, audit)
    return written
