"""The webhooks part of the PostgreSQL store, and the endpoints of jobs with a webhook of their own.

Deliveries are inserted by the statements that write transitions (`called` in queries.sql).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.model.audit import AuditEntry
from coatcheck.model.job import JobInsert
from coatcheck.model.webhook import (
    OWN,
    DeliveryKey,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookSecret,
)
from coatcheck.store.base import Topic
from coatcheck.store.postgres import audit as audit_log
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.rows import (
    endpoint_row,
    own_endpoint,
    read_delivery,
    read_delivery_claim,
    read_endpoint,
    write_log,
)
from coatcheck.store.webhooks import DeliveryClaim, DeliveryFilter, DeliveryLane, DeliveryResult

# After every delivery: larger than any time, and than any text that is an id.
_LATEST = 2**63 - 1
_LAST = "\U0010ffff"


async def add_job_endpoint(db: Any, sql: Statements, new: Sequence[JobInsert]) -> None:
    """Write the endpoints of new jobs with webhooks of their own."""
    own = [endpoint_row(own_endpoint(job, job.webhook)) for job in new if job.webhook is not None]
    if own:
        await db.execute(sql.insert_endpoints, *map(list, zip(*sorted(own), strict=True)))


async def delete_job_deliveries(db: Any, sql: Statements, keys: Sequence[Any]) -> int:
    """Delete jobs' own endpoints and their deliveries. Returns the number of deliveries."""
    await db.execute(sql.delete_endpoints_of_jobs, *keys)
    return int((await db.execute(sql.delete_deliveries, *keys)).rpartition(" ")[2])


class PostgresWebhooks:
    """The verbs on webhooks."""

    def __init__(self, database: Database, sql: Statements, notifications: Notifications) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications

    async def put_endpoint(
        self,
        endpoint: WebhookEndpoint,
        secret: WebhookSecret | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> None:
        """Write a tenant's endpoint."""

        async def put(db: Any) -> None:
            await db.execute(self._sql.put_endpoint, *endpoint_row(endpoint))
            if secret is not None:
                await db.execute(self._sql.put_secret, endpoint.tenant, endpoint.id, *secret)
            await audit_log.record(db, self._sql, audit)

        await self._database.run(put)

    async def get_endpoint(self, tenant: str, endpoint_id: str) -> WebhookEndpoint | None:
        """Read a tenant's endpoint."""
        rows = await self._database.fetch(self._sql.endpoint, tenant, endpoint_id)
        return read_endpoint(rows[0]) if rows and endpoint_id != OWN else None

    async def list_endpoints(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[WebhookEndpoint]:
        """List a tenant's endpoints."""
        rows = await self._database.fetch(self._sql.endpoints_after, tenant, after, limit)
        return [read_endpoint(row) for row in rows]

    async def delete_endpoint(
        self, tenant: str, endpoint_id: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a tenant's endpoint and its secrets."""

        async def delete(db: Any) -> bool:
            sql, place = self._sql, (tenant, endpoint_id)
            found = await audit_log.delete(db, sql, audit, sql.delete_endpoint, *place)
            await db.execute(sql.delete_secrets, *place)
            return found

        found = await self._database.run(delete)
        self._notifications.publish({Topic.WEBHOOKS})  # pending deliveries are dropped
        return found

    async def list_secrets(self, tenant: str, endpoint_id: str, now: int) -> list[WebhookSecret]:
        """List the valid secrets of an endpoint."""
        rows = await self._database.fetch(self._sql.secrets_of, tenant, endpoint_id, now)
        return [WebhookSecret(*row) for row in rows]

    async def put_secret(
        self,
        tenant: str,
        endpoint_id: str,
        secret: WebhookSecret,
        old_until: int,
        *,
        first: bool = False,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Add a secret."""
        place = (tenant, endpoint_id)

        async def put(db: Any) -> bool:
            await db.execute(self._sql.lock_secrets, "/".join(place))
            there = await db.fetch(self._sql.secrets_of, *place, secret.created_at)
            if there and there[0][0] == secret.value:
                return True  # our own write; its response was lost
            if first and there:
                return False
            await db.execute(self._sql.retire_secrets, *place, old_until)
            await db.execute(self._sql.delete_retired_secrets, *place)
            await db.execute(self._sql.put_secret, *place, *secret)
            await audit_log.record(db, self._sql, audit)
            return True

        return await self._database.run(put)

    async def list_delivery_lanes(self) -> list[DeliveryLane]:
        """List the lanes with pending deliveries."""
        return [DeliveryLane(*row) for row in await self._database.fetch(self._sql.delivery_lanes)]

    async def claim_deliveries(
        self, now: int, until: int, wanted: Mapping[str, int]
    ) -> list[DeliveryClaim]:
        """Claim due deliveries."""
        rows = await self._database.run(
            lambda db: db.fetch(
                self._sql.claim_deliveries, list(wanted), list(wanted.values()), now, until
            ),
            transaction=False,
            repeatable=False,
        )
        return [read_delivery_claim(row) for row in rows]

    async def record_deliveries(self, results: Sequence[DeliveryResult]) -> list[bool]:
        """Record the results of attempts."""
        if not results:
            return []
        rows = [
            (*each.key, each.attempt, each.state, each.due_at, write_log(each.log))
            for each in sorted(results, key=lambda each: each.key)
        ]

        async def record(db: Any) -> set[DeliveryKey]:
            found = await db.fetch(self._sql.note_deliveries, *map(list, zip(*rows, strict=True)))
            fresh = {DeliveryKey(*row) for row in found}
            # Lock in the same order everywhere, so that two senders cannot deadlock.
            health = {
                (key.tenant, key.job_id if key.endpoint == OWN else OWN, key.endpoint): each.health
                for each in results
                if (key := each.key) in fresh and each.health is not None
            }
            for place, stands in sorted(health.items()):
                await db.execute(self._sql.update_health, *stands, *place)
            return fresh

        fresh = await self._database.run(record)
        written = [each.key in fresh for each in results]
        if any(new and each.due_at is not None for new, each in zip(written, results, strict=True)):
            self._notifications.publish({Topic.WEBHOOKS})  # it may be due before its lease expires
        return written

    async def get_delivery(self, key: DeliveryKey) -> WebhookDelivery | None:
        """Read a delivery."""
        rows = await self._database.fetch(self._sql.delivery, *key)
        return read_delivery(rows[0]) if rows else None

    async def list_deliveries(self, page: DeliveryFilter) -> list[WebhookDelivery]:
        """List deliveries, newest first."""
        at, last = page.before or (
            _LATEST,
            DeliveryKey(page.tenant, _LAST, _LATEST, _LAST),
        )
        if page.job_id is not None:
            place: tuple[Any, ...] = (
                page.job_id,
                page.state,
                last.seq,
                last.endpoint,
            )
            rows = await self._database.fetch(
                self._sql.deliveries_of_job, page.tenant, *place, page.limit
            )
        else:
            place = (page.endpoint, page.state, at, last.job_id, last.seq)
            rows = await self._database.fetch(
                self._sql.deliveries_of_endpoint,
                page.tenant,
                *place,
                page.limit,
            )
        return [read_delivery(row) for row in rows]

    async def redeliver(self, keys: Sequence[DeliveryKey], now: int) -> int:
        """Make deliveries due again."""
        if not keys:
            return 0
        values = [list(column) for column in zip(*sorted(set(keys)), strict=True)]
        done = await self._database.run(
            lambda db: db.execute(self._sql.redeliver, now, *values), transaction=False
        )
        self._notifications.publish({Topic.WEBHOOKS})
        return int(done.rpartition(" ")[2])
