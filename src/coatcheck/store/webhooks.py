"""The webhooks part of a store: endpoints, their secrets, and the outbox of deliveries.

A delivery is written in the transaction of the transition it reports, for every endpoint that
subscribes to it: neither exists without the other. Jobs without an endpoint cost one check whether
there is any endpoint at all.

Any number of processes may send, with no leader:

- `claim_deliveries` returns due deliveries and makes them due again a lease later. If a sender dies
  between sending and recording, the delivery is sent once more under the same id. The repetition
  counts as one of its attempts.
- `record_deliveries` names the attempt. If the lease has passed and another sender has tried since,
  it changes nothing.

Deliveries wait in *lanes*. A lane belongs to one tenant. A sender reads the first delivery of each
lane (`list_delivery_lanes`) and claims a number from each, so a backlog in one lane does not delay
the others.

A delivery exists as long as its job. Retention waits for pending deliveries; an explicit delete
does not.
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
    """A claimed delivery, its endpoint (None: deleted since), and facts about its job."""

    delivery: WebhookDelivery
    lane: str
    endpoint: WebhookEndpoint | None
    kind: str | None
    traceparent: str | None


class DeliveryLane(NamedTuple):
    """A lane with pending deliveries. `due_at` and `tried` are those of the first one."""

    name: str
    tenant: str
    due_at: int
    tried: bool


class DeliveryResult(NamedTuple):
    """The result of a delivery attempt, and the health of the endpoint after it."""

    key: DeliveryKey
    attempt: int  # its number; a later attempt makes this result stale
    state: DeliveryState
    due_at: int | None
    log: tuple[DeliveryAttempt, ...]
    health: EndpointHealth | None = None  # None: unchanged


class EndpointHealth(NamedTuple):
    """Since when an endpoint has been failing, and whether it was disabled."""

    failing_since: int | None
    disabled_at: int | None = None
    disabled_why: str | None = None


class DeliveryFilter(NamedTuple):
    """A filter and a page of deliveries, newest first: those of an endpoint or of a job.

    `before` is the last delivery of the previous page.
    """

    tenant: str
    endpoint: str | None = None
    job_id: str | None = None
    state: DeliveryState | None = None
    before: tuple[int, DeliveryKey] | None = None  # its time, and its key
    limit: int = 50


class WebhookStore(Protocol):
    """The verbs on webhooks."""

    async def put_endpoint(
        self,
        endpoint: WebhookEndpoint,
        secret: WebhookSecret | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> None:
        """Create or replace a tenant's endpoint, with its first secret."""
        ...

    async def get_endpoint(self, tenant: str, endpoint_id: str) -> WebhookEndpoint | None:
        """Read a tenant's endpoint."""
        ...

    async def list_endpoints(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[WebhookEndpoint]:
        """List a tenant's endpoints by id, after the id `after`."""
        ...

    async def delete_endpoint(
        self, tenant: str, endpoint_id: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a tenant's endpoint and its secrets. Returns False if there was none.

        Pending deliveries are claimed without an endpoint from then on.
        """
        ...

    async def list_secrets(self, tenant: str, endpoint_id: str, now: int) -> list[WebhookSecret]:
        """List the valid secrets of an endpoint, newest first; for OWN, the secrets shared by the
        endpoints that a tenant's jobs bring along.
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
        """Add a secret. The previous one stays valid until `old_until`; older ones are deleted.

        With `first` it is written only if there is no secret. Returns False if there is one.
        """
        ...

    async def list_delivery_lanes(self) -> list[DeliveryLane]:
        """List the lanes with pending deliveries."""
        ...

    async def claim_deliveries(
        self, now: int, until: int, wanted: Mapping[str, int]
    ) -> list[DeliveryClaim]:
        """Claim due deliveries: up to this many from each lane, longest due first.

        A claimed delivery is due again at `until` unless its result is recorded.
        """
        ...

    async def record_deliveries(self, results: Sequence[DeliveryResult]) -> list[bool]:
        """Record the results of attempts. Returns for each whether it was the latest attempt.

        A retry may be due before the lease would have expired, so WEBHOOKS is signalled.
        """
        ...

    async def get_delivery(self, key: DeliveryKey) -> WebhookDelivery | None:
        """Read a delivery."""
        ...

    async def list_deliveries(self, page: DeliveryFilter) -> list[WebhookDelivery]:
        """List deliveries, newest first."""
        ...

    async def redeliver(self, keys: Sequence[DeliveryKey], now: int) -> int:
        """Make deliveries due again, whatever their state, at the start of the retry schedule.

        Returns the number of deliveries found.
        """
        ...
