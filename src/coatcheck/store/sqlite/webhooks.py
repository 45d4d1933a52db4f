"""The webhooks part of the SQLite store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from coatcheck.store.shared.rows import (
    endpoint_row,
    own_endpoint,
    read_delivery,
    read_delivery_claim,
    read_endpoint,
    write_log,
)
from coatcheck.store.sqlite import audit as audit_log
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.webhooks import DeliveryClaim, DeliveryFilter, DeliveryLane, DeliveryResult

_INSERT_DELIVERIES = SQL.insert_deliveries


def enqueue_deliveries(
    tx: Transaction, tenant: str, job_id: str, seq: int, what: str, event: str, now: int
) -> None:
    """Write a delivery for each endpoint that subscribes to a job's new state or phase."""
    if tx.endpoints is None:  # one query a transaction, usually the only one
        tx.endpoints = tx.one(SQL.any_endpoint)[0] == 1
    if not tx.endpoints:
        return
    tx.execute(_INSERT_DELIVERIES, (tenant, job_id, seq, what, now, event))
    if tx.changed():
        tx.topics.add(Topic.WEBHOOKS)


def add_job_endpoint(tx: Transaction, job: JobInsert) -> None:
    """Write the endpoint of a new job with a webhook of its own."""
    if job.webhook is not None:
        tx.execute(SQL.put_endpoint, endpoint_row(own_endpoint(job, job.webhook)))
        tx.endpoints = True


def delete_job_deliveries(tx: Transaction, tenant: str, job_id: str) -> int:
    """Delete a job's own endpoint and its deliveries. Returns the number of deliveries."""
    tx.execute(SQL.delete_endpoints_of_job, (tenant, job_id))
    tx.execute(SQL.delete_deliveries, (tenant, job_id))
    return tx.changed()


class SQLiteWebhooks:
    """The verbs on webhooks."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def put_endpoint(
        self,
        endpoint: WebhookEndpoint,
        secret: WebhookSecret | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> None:
        """Write a tenant's endpoint."""

        def put(tx: Transaction) -> None:
            tx.execute(SQL.put_endpoint, endpoint_row(endpoint))
            tx.endpoints = True
            if secret is not None:
                tx.execute(SQL.put_secret, (endpoint.tenant, endpoint.id, *secret))
            audit_log.record(tx, audit)

        await self._writer.write(put, Urgency.SUBMIT)

    async def get_endpoint(self, tenant: str, endpoint_id: str) -> WebhookEndpoint | None:
        """Read a tenant's endpoint."""
        rows = await self._reader.all(SQL.endpoint, (tenant, endpoint_id))
        return read_endpoint(rows[0]) if rows and endpoint_id != OWN else None

    async def list_endpoints(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[WebhookEndpoint]:
        """List a tenant's endpoints."""
        rows = await self._reader.all(SQL.endpoints_after, (tenant, after, limit))
        return [read_endpoint(row) for row in rows]

    async def delete_endpoint(
        self, tenant: str, endpoint_id: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a tenant's endpoint and its secrets."""

        def delete(tx: Transaction) -> bool:
            tx.execute(SQL.delete_endpoint, (tenant, endpoint_id))
            found = tx.changed() == 1
            if found:
                tx.execute(SQL.delete_secrets, (tenant, endpoint_id))
                tx.topics.add(Topic.WEBHOOKS)  # pending deliveries are dropped
                audit_log.record(tx, audit)
            return found

        return await self._writer.write(delete, Urgency.SUBMIT)

    async def list_secrets(self, tenant: str, endpoint_id: str, now: int) -> list[WebhookSecret]:
        """List the valid secrets of an endpoint."""
        return [
            WebhookSecret(*row)
            for row in await self._reader.all(SQL.secrets_of, (tenant, endpoint_id, now))
        ]

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

        def put(tx: Transaction) -> bool:
            place = (tenant, endpoint_id)
            if first and tx.one(SQL.secrets_of, (*place, secret.created_at)) is not None:
                return False
            tx.execute(SQL.retire_secrets, (*place, old_until))
            tx.execute(SQL.delete_retired_secrets, place)
            tx.execute(SQL.put_secret, (*place, *secret))
            audit_log.record(tx, audit)
            return True

        return await self._writer.write(put, Urgency.SUBMIT)

    async def list_delivery_lanes(self) -> list[DeliveryLane]:
        """List the lanes with pending deliveries."""
        rows = await self._reader.all(SQL.delivery_lanes)
        return [DeliveryLane(name, tenant, at, tried == 1) for name, tenant, at, tried in rows]

    async def claim_deliveries(
        self, now: int, until: int, wanted: Mapping[str, int]
    ) -> list[DeliveryClaim]:
        """Claim due deliveries."""

        def claim(tx: Transaction) -> list[DeliveryClaim]:
            found = [
                tuple(row)
                for lane, most in wanted.items()
                for row in tx.all(SQL.due_in_lane, (lane, now, most))
            ]
            for key in found:
                tx.execute(SQL.take_delivery, (until, *key))
            return [read_delivery_claim(tx.one(SQL.taken_delivery, key)) for key in found]

        return await self._writer.write(claim, Urgency.SUBMIT)

    async def record_deliveries(self, results: Sequence[DeliveryResult]) -> list[bool]:
        """Record the results of attempts."""
        return await self._writer.write(
            lambda tx: [_record(tx, each) for each in results], Urgency.SUBMIT
        )

    async def get_delivery(self, key: DeliveryKey) -> WebhookDelivery | None:
        """Read a delivery."""
        rows = await self._reader.all(SQL.delivery, tuple(key))
        return read_delivery(rows[0]) if rows else None

    async def list_deliveries(self, page: DeliveryFilter) -> list[WebhookDelivery]:
        """List deliveries, newest first."""
        before = page.before
        if page.job_id is not None:
            last = (None, None) if before is None else (before[1].seq, before[1].endpoint)
            values = (
                page.tenant,
                page.job_id,
                page.state,
                *last,
                page.limit,
            )
            rows = await self._reader.all(SQL.deliveries_of_job, values)
        else:
            place = (None,) * 3 if before is None else (before[0], before[1].job_id, before[1].seq)
            values = (
                page.tenant,
                page.endpoint,
                page.state,
                *place,
                page.limit,
            )
            rows = await self._reader.all(SQL.deliveries_of_endpoint, values)
        return [read_delivery(row) for row in rows]

    async def redeliver(self, keys: Sequence[DeliveryKey], now: int) -> int:
        """Make deliveries due again."""

        def again(tx: Transaction) -> int:
            found = 0
            for key in keys:
                tx.execute(SQL.redeliver, (now, *key))
                found += tx.changed()
            tx.topics.add(Topic.WEBHOOKS)
            return found

        return await self._writer.write(again, Urgency.SUBMIT)


def _record(tx: Transaction, result: DeliveryResult) -> bool:
    values = (result.state, result.due_at, write_log(result.log), *result.key, result.attempt)
    tx.execute(SQL.note_delivery, values)
    if not tx.changed():
        return False
    if result.due_at is not None:
        tx.topics.add(Topic.WEBHOOKS)  # it may be due before its lease expires
    if result.health is not None:
        tenant, job_id, _, endpoint = result.key
        tx.execute(SQL.update_health, (*result.health, tenant, job_id, endpoint))
    return True
