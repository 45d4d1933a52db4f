"""Conformance tests for webhook endpoints and their secrets.

The creation of deliveries is tested in `outbox.py`, their dispatch in `deliveries.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coatcheck.model.job import JobInsert
from coatcheck.model.outcome import Succeeded
from coatcheck.model.webhook import (
    OWN,
    Callback,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookSecret,
)
from coatcheck.store.base import Store
from coatcheck.store.webhooks import DeliveryFilter
from coatcheck.testing.conformance.arrange import (
    NOW,
    TENANT,
    Conformance,
    new_id,
    new_job,
    run_job,
    settle,
)

EVERYTHING = "cancelled failed queued running succeeded waiting"
ENDS = "cancelled failed succeeded"
LEASE = 60_000


def new_endpoint(**fields: Any) -> WebhookEndpoint:
    """Return an endpoint that selects all final states."""
    id_ = fields.pop("id", None) or new_id()
    known = WebhookEndpoint(TENANT, id_, "https://example.com/hook", f"lane-{id_}", ENDS, NOW)
    return replace(known, **fields)


async def put(store: Store, **fields: Any) -> WebhookEndpoint:
    """Store an endpoint."""
    endpoint = new_endpoint(**fields)
    await store.webhooks.put_endpoint(endpoint)
    return endpoint


def called_back(events: str = ENDS, lane: str = "own", **fields: Any) -> JobInsert:
    """Return a job with its own endpoint."""
    return new_job(webhook=Callback("https://example.com/own", lane, events), **fields)


async def of_job(store: Store, job_id: str, **fields: Any) -> list[WebhookDelivery]:
    """Return a job's deliveries, oldest first."""
    which = DeliveryFilter(fields.pop("tenant", TENANT), job_id=job_id, limit=1000, **fields)
    return (await store.webhooks.list_deliveries(which))[::-1]


async def told(store: Store, job_id: str) -> list[str]:
    """Return the types of a job's deliveries, in order."""
    return [delivery.type for delivery in await of_job(store, job_id)]


async def ended_job(store: Store, **fields: Any) -> str:
    """Run a job until it succeeds and return its id."""
    lease = await run_job(store, new_job(**fields))
    assert await settle(store, lease, Succeeded("1"))
    return lease.job_id


class EndpointConformance(Conformance):
    """Tests for endpoints and their secrets."""

    async def test_an_endpoint_is_read_as_it_was_written(self, store: Store) -> None:
        """Every field of an endpoint is stored unchanged."""
        endpoint = await put(
            store,
            description="the shop's",
            failing_since=NOW - 5,
            disabled_at=NOW,
            disabled_why="gone",
        )
        assert await store.webhooks.get_endpoint(TENANT, endpoint.id) == endpoint
        changed = replace(endpoint, url="http://other.example/", events="failed", disabled_at=None)
        await store.webhooks.put_endpoint(changed)
        assert await store.webhooks.get_endpoint(TENANT, endpoint.id) == changed

    async def test_endpoints_are_listed_by_id_each_tenant_its_own(self, store: Store) -> None:
        """Endpoints are listed in pages for their own tenant, without the endpoints of jobs."""
        ids = [(await put(store)).id for _ in range(3)]
        await put(store, tenant="another")
        await store.jobs.submit(called_back(), NOW)
        first = await store.webhooks.list_endpoints(TENANT, limit=2)
        rest = await store.webhooks.list_endpoints(TENANT, first[-1].id, 2)
        assert [endpoint.id for endpoint in (*first, *rest)] == ids
        assert await store.webhooks.get_endpoint("another", ids[0]) is None
        assert await store.webhooks.get_endpoint(TENANT, OWN) is None

    async def test_an_endpoint_is_deleted_with_its_secrets(self, store: Store) -> None:
        """Deleting an endpoint deletes its secrets; deleting it again returns False."""
        endpoint = new_endpoint()
        await store.webhooks.put_endpoint(endpoint, WebhookSecret("whsec_a", NOW))
        assert await store.webhooks.delete_endpoint("another", endpoint.id) is False
        assert await store.webhooks.delete_endpoint(TENANT, endpoint.id) is True
        assert await store.webhooks.delete_endpoint(TENANT, endpoint.id) is False
        assert await store.webhooks.get_endpoint(TENANT, endpoint.id) is None
        assert await store.webhooks.list_secrets(TENANT, endpoint.id, NOW) == []

    async def test_a_new_secret_stands_beside_the_one_before_for_a_while(
        self, store: Store
    ) -> None:
        """Rotation keeps the previous secret until it expires; at most two secrets are valid."""
        endpoint = new_endpoint()
        await store.webhooks.put_endpoint(endpoint, WebhookSecret("whsec_a", NOW))
        assert await store.webhooks.put_secret(
            TENANT, endpoint.id, WebhookSecret("whsec_b", NOW + 1), NOW + 100
        )
        found = await store.webhooks.list_secrets(TENANT, endpoint.id, NOW + 2)
        assert found == [
            WebhookSecret("whsec_b", NOW + 1),
            WebhookSecret("whsec_a", NOW, NOW + 100),
        ]
        assert await store.webhooks.list_secrets(TENANT, endpoint.id, NOW + 100) == found[:1]
        await store.webhooks.put_secret(
            TENANT, endpoint.id, WebhookSecret("whsec_c", NOW + 3), NOW + 200
        )
        values = [
            each.value for each in await store.webhooks.list_secrets(TENANT, endpoint.id, NOW + 4)
        ]
        assert values == ["whsec_c", "whsec_b"]

    async def test_of_first_secrets_one_is_kept(self, store: Store) -> None:
        """With `first=True`, a secret is stored only if there is none."""
        assert await store.webhooks.put_secret(
            TENANT, OWN, WebhookSecret("whsec_a", NOW), NOW, first=True
        )
        assert not await store.webhooks.put_secret(
            TENANT, OWN, WebhookSecret("whsec_b", NOW), NOW, first=True
        )
        assert await store.webhooks.list_secrets(TENANT, OWN, NOW) == [
            WebhookSecret("whsec_a", NOW)
        ]
        assert await store.webhooks.list_secrets("another", OWN, NOW) == []
