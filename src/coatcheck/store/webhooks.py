"""The part of a store that is about webhooks: endpoints, their secrets, and the outbox.

A delivery is written in the transaction of the transition it tells of, for every endpoint that
wants to hear of it: there is no moment at which the one is there and not the other. Jobs that no
endpoint is concerned with cost nothing but the look whether there is any endpoint at all.

Who may send: any number of processes, none of them a leader.

- `claim_deliveries` hands out what is due, and makes it due again a lease later. Whoever dies
  after sending and before noting what became of it leaves a delivery that is sent once more, under
  the same id. It counts as one of its tries.
- `note_deliveries` names the attempt it speaks of: whoever comes after the lease has passed and
  somebody else has tried changes nothing.

Deliveries wait in *lanes*, each of which belongs to one tenant, and are handed out by lane: whoever
sends looks at the first of every lane (`delivery_lanes`) and says how many it wants of which, so
that however many wait in one, another's first comes at once.

A delivery is there as long as its job. Retention waits for those that are pending; deleting a
job by hand does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.audit import AuditEntry
from coatcheck.model.webhook import (
    DeliveryAttempt,
    DeliveryKey,
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookSecret,
)


class DeliveryClaim(NamedTuple):
    """A delivery to be sent, to whom (None: that endpoint is gone), and what of its job is told."""

    delivery: WebhookDelivery
    lane: str
    endpoint: WebhookEndpoint | None
    kind: str | None
    traceparent: str | None


class DeliveryLane(NamedTuple):
    """A lane that has something pending: whose it is, when the first of it is due, and whether that
    was tried before.
    """

    name: str
    tenant: str
    due_at: int
    tried: bool


class DeliveryResult(NamedTuple):
    """What became of an attempt to deliver, and of the endpoint with it."""

    key: DeliveryKey
    attempt: int  # which one; a later one has made this one stale
    state: DeliveryState
    due_at: int | None
    log: tuple[DeliveryAttempt, ...]
    # How the endpoint stands after it; None: as before.
    health: EndpointHealth | None = None


class EndpointHealth(NamedTuple):
    """Since when an endpoint fails, and whether it is disabled for that."""

    failing_since: int | None
    disabled_at: int | None = None
    disabled_why: str | None = None


class DeliveryFilter(NamedTuple):
    """Which deliveries to list, newest first: an endpoint's or a job's. `before` is the last seen.

    A job's come with the endpoints of its tenant, an endpoint's with all its jobs.
    """

    tenant: str
    endpoint: str | None = None
    job_id: str | None = None
    state: DeliveryState | None = None
    before: tuple[int, DeliveryKey] | None = None  # its time, and its key
    limit: int = 50


class WebhookStore(Protocol):
    """Webhooks, as semantic verbs."""

    async def put_endpoint(
        self,
        endpoint: WebhookEndpoint,
        secret: WebhookSecret | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> None:
        """Write a tenant's endpoint, in place of the one with its id; with its first secret."""
        ...

    async def get_endpoint(self, tenant: str, endpoint_id: str) -> WebhookEndpoint | None:
        """Read a tenant's endpoint."""
        ...

    async def list_endpoints(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[WebhookEndpoint]:
        """List a tenant's endpoints in the order of their ids, from the one after `after`."""
        ...

    async def delete_endpoint(
        self, tenant: str, endpoint_id: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a tenant's endpoint and its secrets; False when there was none. What is pending
        is handed out without an endpoint.
        """
        ...

    async def secrets_of(self, tenant: str, endpoint_id: str, now: int) -> list[WebhookSecret]:
        """Read the secrets that count now, the newest first: of an endpoint, or (OWN) those that a
        tenant's jobs' own endpoints share.
        """
        ...

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
        """Add a secret. The newest of those before counts until `old_until`, older ones no more.

        With `first` it is written only where there is none; False when there was.
        """
        ...

    async def delivery_lanes(self) -> list[DeliveryLane]:
        """Return every lane that has something pending."""
        ...

    async def claim_deliveries(
        self, now: int, until: int, wanted: Mapping[str, int]
    ) -> list[DeliveryClaim]:
        """Hand out deliveries that are due: of each of these lanes up to so many, the longest due
        first. Unless noted they are due again at `until`.
        """
        ...

    async def note_deliveries(self, noted: Sequence[DeliveryResult]) -> list[bool]:
        """Write what became of attempts; for each whether it was still the newest. A retry is due
        before the lease would have ended, so it wakes those who wait for WEBHOOKS.
        """
        ...

    async def get_delivery(self, key: DeliveryKey) -> WebhookDelivery | None:
        """Read a delivery."""
        ...

    async def list_deliveries(self, which: DeliveryFilter) -> list[WebhookDelivery]:
        """List deliveries, newest first."""
        ...

    async def redeliver(self, keys: Sequence[DeliveryKey], now: int) -> int:
        """Have deliveries sent again, whatever became of them, from the beginning of the schedule;
        return how many of them there are.
        """
        ...
