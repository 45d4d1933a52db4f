"""Operations on webhooks: endpoints, their secrets, deliveries and redelivery.

An address is checked when it is submitted, so that the caller sees a mistake at once. The check
that counts happens at each call (`coatcheck.egress`).

A secret is shown when it is created, and never again. The one exception is the secret that all of a
tenant's jobs' own endpoints share, because the receivers of those calls need a way to get it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from coatcheck.clock import Clock
from coatcheck.egress.policy import EgressPolicy
from coatcheck.egress.target import EgressTarget
from coatcheck.errors import Conflict, EgressDenied, InvalidPayload, NotFound
from coatcheck.ids import is_ulid
from coatcheck.model.audit import ANONYMOUS, Action, AuditEntry, audited, changed_fields
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.webhook import (
    ENDS,
    OWN,
    ROTATION_MS,
    TYPES,
    Callback,
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookSecret,
    new_secret,
    read_delivery_id,
    states_of,
)
from coatcheck.store.base import Store
from coatcheck.store.webhooks import DeliveryFilter

LONGEST_DESCRIPTION = 200
MOST_ENDPOINTS = 50
# The audit trail's name for the secret that a tenant's jobs' own endpoints share.
SHARED_SECRET = "secret"  # noqa: S105 - a name
# How many addresses of one batch are checked concurrently.
LOOKS_AT_ONCE = 32
# How many deliveries one request may redeliver.
REDELIVERED_AT_ONCE = 1_000


class WebhookSpec(NamedTuple):
    """An address and the events it receives. None means the events of finished jobs."""

    url: str
    events: Sequence[str] | None = None


class WebhookEndpoints:
    """The webhooks of one store."""

    def __init__(
        self,
        store: Store,
        guard: EgressPolicy,
        clock: Clock,
        new_id: Callable[[], str],
        default_secret: str = "",
    ) -> None:
        self._store = store
        self._guard = guard
        self._clock = clock
        self._new_id = new_id
        self._default_secret = default_secret
        self._can_sign = False

    # --- endpoints

    async def create(
        self,
        asked: WebhookSpec,
        description: str = "",
        tenant: str = DEFAULT_TENANT,
        *,
        actor: str = ANONYMOUS,
    ) -> tuple[WebhookEndpoint, str]:
        """Create an endpoint; return it and its secret, which is shown only this once."""
        target, events = await self._read(asked, description)
        if (
            len(await self._store.webhooks.list_endpoints(tenant, limit=MOST_ENDPOINTS))
            >= MOST_ENDPOINTS
        ):
            raise Conflict(f"there are at most {MOST_ENDPOINTS} webhooks; delete one first")
        id_, now, secret = self._new_id(), self._clock.now(), new_secret()
        endpoint = WebhookEndpoint(
            tenant, id_, target.url, id_, events, now, description=description
        )
        entry = self._entry(actor, Action.CREATE_WEBHOOK, id_, tenant)
        await self._store.webhooks.put_endpoint(endpoint, WebhookSecret(secret, now), audit=entry)
        return endpoint, secret

    async def update(
        self,
        endpoint_id: str,
        asked: WebhookSpec,
        description: str = "",
        tenant: str = DEFAULT_TENANT,
        *,
        actor: str = ANONYMOUS,
    ) -> WebhookEndpoint:
        """Change an endpoint's address, events or description, and enable it."""
        there = await self.get(endpoint_id, tenant)
        target, events = await self._read(asked, description)
        changed = replace(
            there,
            url=target.url,
            events=events,
            description=description,
            failing_since=None,
            disabled_at=None,
            disabled_why=None,
        )
        fields = changed_fields(there, changed, ("url", "events", "description", "disabled_at"))
        entry = self._entry(actor, Action.UPDATE_WEBHOOK, endpoint_id, tenant, changed=fields)
        await self._store.webhooks.put_endpoint(changed, audit=entry)
        return changed

    async def get(self, endpoint_id: str, tenant: str = DEFAULT_TENANT) -> WebhookEndpoint:
        """Read an endpoint; raises NotFound."""
        found = None
        if is_ulid(endpoint_id):
            found = await self._store.webhooks.get_endpoint(tenant, endpoint_id)
        if found is None:
            raise NotFound("there is no such webhook")
        return found

    async def page(
        self, after: str = "", limit: int = 100, tenant: str = DEFAULT_TENANT
    ) -> list[WebhookEndpoint]:
        """List endpoints, oldest first."""
        return await self._store.webhooks.list_endpoints(tenant, after, limit)

    async def delete(
        self, endpoint_id: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> WebhookEndpoint:
        """Delete an endpoint and cancel its pending deliveries; raises NotFound."""
        there = await self.get(endpoint_id, tenant)
        entry = self._entry(actor, Action.DELETE_WEBHOOK, endpoint_id, tenant)
        if not await self._store.webhooks.delete_endpoint(tenant, endpoint_id, audit=entry):
            raise NotFound("there is no such webhook")
        return there

    async def enable(
        self, endpoint_id: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> WebhookEndpoint:
        """Enable a disabled endpoint."""
        there = await self.get(endpoint_id, tenant)
        enabled = replace(there, failing_since=None, disabled_at=None, disabled_why=None)
        entry = self._entry(actor, Action.ENABLE_WEBHOOK, endpoint_id, tenant)
        await self._store.webhooks.put_endpoint(enabled, audit=entry)
        return enabled

    async def disable(
        self, endpoint_id: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> WebhookEndpoint:
        """Disable an endpoint and cancel its pending deliveries."""
        there = await self.get(endpoint_id, tenant)
        if there.disabled_at is not None:
            return there
        disabled = replace(there, disabled_at=self._clock.now(), disabled_why="disabled by hand")
        entry = self._entry(actor, Action.DISABLE_WEBHOOK, endpoint_id, tenant)
        await self._store.webhooks.put_endpoint(disabled, audit=entry)
        return disabled

    def _entry(
        self, actor: str, action: Action, endpoint_id: str, tenant: str, **detail: object
    ) -> AuditEntry:
        return audited(self._new_id(), actor, action, endpoint_id, tenant, **detail)

    # --- secrets

    async def rotate(
        self, endpoint_id: str, tenant: str = DEFAULT_TENANT, *, actor: str = ANONYMOUS
    ) -> tuple[str, int]:
        """Create a new secret for an endpoint, or (OWN) for jobs' own endpoints.

        Return the secret and the time until which the previous one is used beside it.
        """
        if endpoint_id == OWN:
            if self._is_set(tenant):
                raise Conflict("this secret is set by COATCHECK_WEBHOOK_SECRET: change it there")
        else:
            await self.get(endpoint_id, tenant)
        now, secret = self._clock.now(), new_secret()
        until = now + ROTATION_MS
        entry = self._entry(actor, Action.ROTATE_WEBHOOK, endpoint_id or SHARED_SECRET, tenant)
        await self._store.webhooks.put_secret(
            tenant, endpoint_id, WebhookSecret(secret, now), until, audit=entry
        )
        return secret, until

    async def secret(self, tenant: str = DEFAULT_TENANT) -> str:
        """Return the secret that signs calls to jobs' own endpoints."""
        return (await self.signing_secrets(OWN, tenant))[0]

    async def signing_secrets(self, endpoint_id: str, tenant: str = DEFAULT_TENANT) -> list[str]:
        """Return the current secrets of an endpoint, newest first."""
        if endpoint_id == OWN and self._is_set(tenant):
            return [self._default_secret]
        now = self._clock.now()
        found = await self._store.webhooks.list_secrets(tenant, endpoint_id, now)
        if not found and endpoint_id == OWN:
            # If several processes create the first secret, one wins and all read that one.
            await self._store.webhooks.put_secret(
                tenant, OWN, WebhookSecret(new_secret(), now), now, first=True
            )
            found = await self._store.webhooks.list_secrets(tenant, OWN, now)
        return [secret.value for secret in found]

    async def ensure_signing_secret(self, tenant: str) -> None:
        """Check once that secrets can be stored here; raises KeyMissing.

        Without a stored secret no webhook could be sent, so the caller who submits an address gets
        the error now.
        """
        if not self._can_sign:
            await self.signing_secrets(OWN, tenant)
            self._can_sign = True

    def _is_set(self, tenant: str) -> bool:
        return bool(self._default_secret) and tenant == DEFAULT_TENANT

    # --- jobs' own endpoints

    async def resolve_callback(self, asked: WebhookSpec, tenant: str) -> Callback:
        """Validate the endpoint that a job names; raises InvalidPayload, EgressDenied."""
        try:
            target, events = await self._read(asked)
        except InvalidPayload as error:
            problems = [(f"/webhook{place}", what) for place, what in error.problems]
            raise type(error)(str(error), problems) from None
        # Jobs of one tenant that call the same server share a lane, and so its slowness.
        return Callback(target.url, f"{tenant} {target.origin}", events)

    async def resolve_callbacks(
        self, asked: Sequence[tuple[WebhookSpec | None, str]]
    ) -> list[Callback | None]:
        """Validate the endpoints of a batch in order; raises one error for all problems."""
        several = asyncio.Semaphore(LOOKS_AT_ONCE)
        alike: dict[tuple[str, tuple[str, ...], str], asyncio.Task[Callback]] = {}

        async def look(webhook: WebhookSpec, tenant: str) -> Callback:
            async with several:
                return await self.resolve_callback(webhook, tenant)

        tasks: list[asyncio.Task[Callback] | None] = []
        for webhook, tenant in asked:
            if webhook is None:
                tasks.append(None)
                continue
            same = (webhook.url, tuple(webhook.events or ()), tenant)
            if same not in alike:
                alike[same] = asyncio.create_task(look(webhook, tenant))
            tasks.append(alike[same])
        await asyncio.gather(*alike.values(), return_exceptions=True)
        problems: list[tuple[str, str]] = []
        kind: type[InvalidPayload] = InvalidPayload
        for number, task in enumerate(tasks):
            error = None if task is None else task.exception()
            if isinstance(error, InvalidPayload):
                kind = EgressDenied if isinstance(error, EgressDenied) else kind
                problems += [(f"/jobs/{number}{place}", what) for place, what in error.problems]
            elif error is not None:
                raise error
        if problems:
            where = "; ".join(f"{place}: {what}" for place, what in problems[:3])
            raise kind(f"nothing was submitted: {where}", problems[:100])
        return [None if task is None else task.result() for task in tasks]

    async def _read(self, asked: WebhookSpec, description: str = "") -> tuple[EgressTarget, str]:
        events = ENDS if asked.events is None else tuple(asked.events)
        problems = [
            (f"/events/{number}", f"there are: {', '.join(TYPES)}")
            for number, name in enumerate(events)
            if name not in TYPES
        ]
        if not events:
            problems.append(("/events", "name at least one event, or leave it out"))
        if len(description) > LONGEST_DESCRIPTION:
            problems.append(("/description", f"at most {LONGEST_DESCRIPTION} characters"))
        if problems:
            raise InvalidPayload(f"{problems[0][0]}: {problems[0][1]}", problems)
        return await self._guard.check_resolved(asked.url), states_of(events)

    # --- deliveries

    async def deliveries(self, which: DeliveryFilter) -> list[WebhookDelivery]:
        """List the deliveries of an endpoint or a job, newest first."""
        return await self._store.webhooks.list_deliveries(which)

    async def delivery(self, delivery_id: str, tenant: str = DEFAULT_TENANT) -> WebhookDelivery:
        """Read a delivery; raises NotFound."""
        key = read_delivery_id(tenant, delivery_id)
        found = None if key is None else await self._store.webhooks.get_delivery(key)
        if found is None:
            raise NotFound("there is no such delivery")
        return found

    async def redeliver(self, delivery_id: str, tenant: str = DEFAULT_TENANT) -> WebhookDelivery:
        """Send a delivery again now under its existing id, whatever its state."""
        found = await self.delivery(delivery_id, tenant)
        await self._store.webhooks.redeliver([found.key], self._clock.now())
        return await self.delivery(delivery_id, tenant)

    async def redeliver_failed(self, endpoint_id: str, tenant: str = DEFAULT_TENANT) -> int:
        """Send the newest failed deliveries of an endpoint again; return how many."""
        await self.get(endpoint_id, tenant)
        failed = DeliveryFilter(
            tenant, endpoint_id, state=DeliveryState.FAILED, limit=REDELIVERED_AT_ONCE
        )
        keys = [delivery.key for delivery in await self._store.webhooks.list_deliveries(failed)]
        return await self._store.webhooks.redeliver(keys, self._clock.now()) if keys else 0
