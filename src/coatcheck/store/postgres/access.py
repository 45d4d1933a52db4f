"""The access part of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from coatcheck.errors import AccessChanged, Conflict
from coatcheck.ids import first_ulid_at
from coatcheck.model.access import ApiKey, KeyUse, Load, Quotas, Tenant
from coatcheck.model.audit import AuditEntry
from coatcheck.model.usage import Usage
from coatcheck.store.access import AccessState
from coatcheck.store.postgres import audit as audit_log
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.rows import (
    MINUTE_MS,
    RUNNING,
    WAITING,
    key_row,
    read_key,
    read_tenant,
    tenant_row,
)

NOTHING_WRITTEN = "INSERT 0 0"


def the_one_epoch(epochs: Iterable[int | None]) -> int | None:
    """Return the epoch of a batch. Raises AccessChanged if callers name different ones."""
    named = {epoch for epoch in epochs if epoch is not None}
    if len(named) > 1:
        raise AccessChanged("keys or tenants have changed")
    return named.pop() if named else None


async def check_epoch(db: Any, sql: Statements, epoch: int | None, written: str) -> None:
    """Raise AccessChanged if a submit wrote nothing because its epoch is no longer current."""
    if epoch is not None and written == NOTHING_WRITTEN:
        row = await db.fetchrow(sql.access)
        if row[0] != epoch:
            raise AccessChanged("keys or tenants have changed")


async def meter(db: Any, sql: Statements, used: Iterable[Usage | None]) -> None:
    """Write usage, in the transaction that it counts."""
    total: dict[tuple[Any, ...], Usage] = {}
    for each in used:
        if each is not None:
            there = total.get(each[:3])
            total[each[:3]] = each if there is None else there.plus(each)
    if total:
        rows = list(total.values())
        await db.execute(sql.add_usage, *(list(column) for column in zip(*rows, strict=True)))


class PostgresAccess:
    """The verbs on tenants and keys."""

    def __init__(self, database: Database, sql: Statements) -> None:
        self._database = database
        self._sql = sql

    async def get_state(self) -> AccessState:
        """Read the access epoch, and whether there are keys."""
        [row] = await self._database.fetch(self._sql.access)
        return AccessState(*row)

    async def put_tenant(self, tenant: Tenant, *, audit: AuditEntry | None = None) -> None:
        """Create or replace a tenant."""

        async def put(db: Any) -> None:
            await db.execute(self._sql.raise_access_epoch)
            await db.execute(self._sql.put_tenant, *tenant_row(tenant))
            await audit_log.record(db, self._sql, audit)

        await self._database.run(put)

    async def get_tenant(self, name: str) -> Tenant | None:
        """Read a tenant."""
        rows = await self._database.fetch(self._sql.tenant, name)
        return read_tenant(rows[0]) if rows else None

    async def list_tenants(self, after: str = "", limit: int = 100) -> list[Tenant]:
        """List tenants by name."""
        return [
            read_tenant(row)
            for row in await self._database.fetch(self._sql.tenants_after, after, limit)
        ]

    async def add_key(
        self,
        key: ApiKey,
        *,
        audit: AuditEntry | None = None,
        tenant_audit: AuditEntry | None = None,
    ) -> None:
        """Write a key, and its tenant if that is new."""

        async def add(db: Any) -> None:
            await db.execute(self._sql.raise_access_epoch)
            new = Tenant(key.tenant, created_at=key.created_at, updated_at=key.created_at)
            if await db.execute(self._sql.add_tenant, *tenant_row(new)) != NOTHING_WRITTEN:
                await audit_log.record(db, self._sql, tenant_audit)
            await db.execute(self._sql.add_key, *key_row(key))
            there = read_key(await db.fetchrow(self._sql.api_key, key.id))
            if there.digest != key.digest:
                raise Conflict(f"there is a key {key.id} already")
            await audit_log.record(db, self._sql, audit)

        await self._database.run(add)

    async def get_key(self, key_id: str) -> tuple[ApiKey, Tenant] | None:
        """Read a key and its tenant."""
        rows = await self._database.fetch(self._sql.key_with_tenant, key_id)
        return (read_key(rows[0][:9]), read_tenant(rows[0][9:])) if rows else None

    async def list_keys(
        self, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[ApiKey]:
        """List keys by id."""
        sql = self._sql.keys_after if tenant is None else self._sql.keys_of_tenant_after
        values = (after, limit) if tenant is None else (tenant, after, limit)
        return [read_key(row) for row in await self._database.fetch(sql, *values)]

    async def revoke_key(
        self, key_id: str, now: int, *, audit: AuditEntry | None = None
    ) -> ApiKey | None:
        """Revoke a key for good."""

        async def revoke(db: Any) -> ApiKey | None:
            # Even if the key was revoked before: an earlier try may have revoked it, and one more
            # epoch does no harm.
            await db.execute(self._sql.raise_access_epoch)
            if await db.execute(self._sql.revoke_key, key_id, now) == "UPDATE 1":
                await audit_log.record(db, self._sql, audit)
            row = await db.fetchrow(self._sql.api_key, key_id)
            return None if row is None else read_key(row)

        return await self._database.run(revoke)

    async def touch_keys(self, uses: Sequence[KeyUse], apart_ms: int) -> None:
        """Record when keys were last used."""
        if uses:
            columns = (list(column) for column in zip(*uses, strict=True))
            await self._database.execute(self._sql.touch_keys, *columns, apart_ms)

    async def list_usage(
        self, tenant: str, since: int, until: int, kind: str | None = None
    ) -> list[Usage]:
        """List a tenant's usage."""
        rows = await self._database.fetch(self._sql.usage_between, tenant, since, until, kind)
        return [Usage(*row) for row in rows]

    async def measure_load(self, tenant: str, quotas: Quotas, now: int) -> Load:
        """Count a tenant's use of each quota that is set."""
        sql, first = self._sql, first_ulid_at(max(0, now - MINUTE_MS))
        waiting, running, submits, payload_bytes, stored = quotas
        return Load(
            await self._number(waiting, sql.count_in_states, tenant, WAITING, waiting),
            await self._number(running, sql.count_in_states, tenant, RUNNING, running),
            await self._number(submits, sql.count_since, tenant, first, submits),
            await self._number(payload_bytes, sql.input_bytes_since, tenant, first),
            await self._number(stored, sql.stored_bytes, tenant),
        )

    async def _number(self, quota: int | None, sql: str, *values: Any) -> int:
        return 0 if quota is None else int((await self._database.fetch(sql, *values))[0][0])
