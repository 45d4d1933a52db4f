"""The access part of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from coatcheck.errors import AccessChanged, Conflict
from coatcheck.ids import first_ulid_at
from coatcheck.model.access import ApiKey, KeyUse, Load, Quotas, Tenant
from coatcheck.model.audit import AuditEntry
from coatcheck.model.usage import Usage
from coatcheck.store.access import AccessState
from coatcheck.store.shared.rows import (
    MINUTE_MS,
    RUNNING,
    WAITING,
    key_row,
    read_key,
    read_tenant,
    tenant_row,
)
from coatcheck.store.sqlite import audit as audit_log
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer


def check_epoch(tx: Transaction, epoch: int) -> None:
    """Raise AccessChanged unless the epoch is still this one."""
    if tx.one(SQL.access_epoch)[0] != epoch:
        raise AccessChanged("keys or tenants have changed")


class SQLiteAccess:
    """The verbs on tenants and keys."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def get_state(self) -> AccessState:
        """Read the access epoch, and whether there are keys."""
        epoch, has_keys = await self._reader.one(SQL.access)
        return AccessState(epoch, has_keys == 1)

    async def put_tenant(self, tenant: Tenant, *, audit: AuditEntry | None = None) -> None:
        """Create or replace a tenant."""

        def put(tx: Transaction) -> None:
            tx.execute(SQL.put_tenant, tenant_row(tenant))
            tx.execute(SQL.raise_access_epoch)
            audit_log.record(tx, audit)

        await self._writer.write(put, Urgency.SUBMIT)

    async def get_tenant(self, name: str) -> Tenant | None:
        """Read a tenant."""
        row = await self._reader.one(SQL.tenant, (name,))
        return None if row is None else read_tenant(row)

    async def list_tenants(self, after: str = "", limit: int = 100) -> list[Tenant]:
        """List tenants by name."""
        rows = await self._reader.all(SQL.tenants_after, (after, limit))
        return [read_tenant(row) for row in rows]

    async def add_key(
        self,
        key: ApiKey,
        *,
        audit: AuditEntry | None = None,
        tenant_audit: AuditEntry | None = None,
    ) -> None:
        """Write a key, and its tenant if that is new."""

        def add(tx: Transaction) -> None:
            if tx.one(SQL.api_key, (key.id,)) is not None:
                raise Conflict(f"there is a key {key.id} already")
            new = Tenant(key.tenant, created_at=key.created_at, updated_at=key.created_at)
            tx.execute(SQL.add_tenant, tenant_row(new))
            if tx.changed():
                audit_log.record(tx, tenant_audit)
            tx.execute(SQL.add_key, key_row(key))
            tx.execute(SQL.raise_access_epoch)
            audit_log.record(tx, audit)

        await self._writer.write(add, Urgency.SUBMIT)

    async def get_key(self, key_id: str) -> tuple[ApiKey, Tenant] | None:
        """Read a key and its tenant."""
        row = await self._reader.one(SQL.key_with_tenant, (key_id,))
        return None if row is None else (read_key(row[:9]), read_tenant(row[9:]))

    async def list_keys(
        self, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[ApiKey]:
        """List keys by id."""
        sql = SQL.keys_after if tenant is None else SQL.keys_of_tenant_after
        values = (after, limit) if tenant is None else (tenant, after, limit)
        rows = await self._reader.all(sql, values)
        return [read_key(row) for row in rows]

    async def revoke_key(
        self, key_id: str, now: int, *, audit: AuditEntry | None = None
    ) -> ApiKey | None:
        """Revoke a key for good."""

        def revoke(tx: Transaction) -> ApiKey | None:
            tx.execute(SQL.revoke_key, (now, key_id))
            if tx.changed():
                tx.execute(SQL.raise_access_epoch)
                audit_log.record(tx, audit)
            row = tx.one(SQL.api_key, (key_id,))
            return None if row is None else read_key(row)

        return await self._writer.write(revoke, Urgency.SUBMIT)

    async def touch_keys(self, uses: Sequence[KeyUse], apart_ms: int) -> None:
        """Record when keys were last used."""

        def touch(tx: Transaction) -> None:
            for use in uses:
                tx.execute(SQL.touch_key, (*use, apart_ms))

        await self._writer.write(touch, Urgency.BULK)

    async def list_usage(
        self, tenant: str, since: int, until: int, kind: str | None = None
    ) -> list[Usage]:
        """List a tenant's usage."""
        rows = await self._reader.all(SQL.usage_between, (tenant, since, until, kind))
        return [Usage(*row) for row in rows]

    async def measure_load(self, tenant: str, quotas: Quotas, now: int) -> Load:
        """Count a tenant's use of each quota that is set."""
        first = first_ulid_at(max(0, now - MINUTE_MS))

        def read(db: apsw.Connection) -> Load:
            waiting, running, submits, payload_bytes, stored = quotas
            return Load(
                _number(db, waiting, SQL.count_in_states, tenant, json.dumps(WAITING), waiting),
                _number(db, running, SQL.count_in_states, tenant, json.dumps(RUNNING), running),
                _number(db, submits, SQL.count_since, tenant, first, submits),
                _number(db, payload_bytes, SQL.input_bytes_since, tenant, first),
                _number(db, stored, SQL.stored_bytes, tenant),
            )

        return await self._reader.read(read)


def _number(db: apsw.Connection, quota: int | None, sql: str, *values: str | int | None) -> int:
    return 0 if quota is None else int(db.execute(sql, values).get)
