"""The audit part of the SQLite store."""

from __future__ import annotations

from coatcheck.model.audit import AuditEntry
from coatcheck.store.audit import AuditFilter
from coatcheck.store.shared.rows import audit_values, read_audit
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer


def record(tx: Transaction, entry: AuditEntry | None) -> None:
    """Write an audit entry, if there is one, in the transaction of its change."""
    if entry is not None:
        tx.execute(SQL.add_audit, entry)


class SQLiteAudit:
    """The verbs on the audit trail."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def list_entries(self, page: AuditFilter) -> list[AuditEntry]:
        """List entries, newest first."""
        sql = SQL.audit_before if page.tenant is None else SQL.audit_of_tenant_before
        rows = await self._reader.all(sql, audit_values(page))
        return [read_audit(row) for row in rows]

    async def delete_entries(self, before: str, limit: int) -> int:
        """Delete the oldest entries."""

        def delete(tx: Transaction) -> int:
            tx.execute(SQL.delete_old_audit, (before, limit))
            return tx.changed()

        return await self._writer.write(delete, Urgency.BULK)
