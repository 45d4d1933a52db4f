"""The audit part of the PostgreSQL store."""

from __future__ import annotations

from typing import Any

from coatcheck.model.audit import AuditEntry
from coatcheck.store.audit import AuditFilter
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.rows import audit_values, read_audit


async def record(db: Any, sql: Statements, entry: AuditEntry | None) -> None:
    """Write an audit entry, if there is one, in the transaction of its change."""
    if entry is not None:
        await db.execute(sql.add_audit, *entry)


async def delete(
    db: Any, sql: Statements, entry: AuditEntry | None, statement: str, *values: Any
) -> bool:
    """Delete one row, and write the audit entry if it existed. Returns whether it did."""
    if await db.execute(statement, *values) != "DELETE 1":
        return False
    await record(db, sql, entry)
    return True


class PostgresAudit:
    """The verbs on the audit trail."""

    def __init__(self, database: Database, sql: Statements) -> None:
        self._database = database
        self._sql = sql

    async def list_entries(self, page: AuditFilter) -> list[AuditEntry]:
        """List entries, newest first."""
        sql = self._sql.audit_before if page.tenant is None else self._sql.audit_of_tenant_before
        return [read_audit(row) for row in await self._database.fetch(sql, *audit_values(page))]

    async def delete_entries(self, before: str, limit: int) -> int:
        """Delete the oldest entries."""
        done = await self._database.execute(self._sql.delete_old_audit, before, limit)
        return int(done.rpartition(" ")[2])
