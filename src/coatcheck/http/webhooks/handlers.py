"""The handlers of webhooks: endpoints, secrets, deliveries and redelivery."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.webhooks import (
    DeliveryDocument,
    DeliveryPage,
    NewSecret,
    NewWebhook,
    WebhookDocument,
    WebhookPage,
)
from coatcheck.engine.engine import Engine
from coatcheck.engine.webhooks.endpoints import WebhookEndpoints
from coatcheck.http.auth.caller import actor_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps, optional_time
from coatcheck.http.request.models import read_model
from coatcheck.http.request.query import MAX_PAGE, PAGE, read_cursor, read_number, write_cursor
from coatcheck.http.webhooks.models import WebhookRequest
from coatcheck.model.access import Scope
from coatcheck.model.webhook import (
    OWN,
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
    delivery_id,
    message_id,
    read_delivery_id,
    types_of,
)
from coatcheck.store.webhooks import DeliveryFilter

log = logging.getLogger(__name__)

# No cache may store a response that contains a secret.
_NO_STORE = {"Cache-Control": "no-store"}


async def create_webhook(request: Request) -> Response:
    """Create a webhook for all jobs. Its secret is in this response only."""
    wanted = await read_model(request, WebhookRequest)
    endpoint, secret = await _webhooks(request).create(
        wanted.spec(), wanted.description, tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook created", extra={"webhook": endpoint.id})
    headers = {"Location": f"/v1/webhooks/{endpoint.id}", **_NO_STORE}
    created: NewWebhook = {**webhook_view(endpoint), "secret": secret}
    return _response(created, 201, headers)


async def list_webhooks(request: Request) -> Response:
    """Return a page of webhooks, oldest first."""
    query = request.query_params
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    after = "" if (cursor := query.get("cursor")) is None else read_cursor(cursor)
    found = await _webhooks(request).page(after, limit + 1, tenant_of(request))
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    listed = [webhook_view(endpoint) for endpoint in found[:limit]]
    page: WebhookPage = {"webhooks": listed, "next_cursor": more}
    return _response(page)


async def get_webhook(request: Request) -> Response:
    """Return a webhook."""
    return _response(webhook_view(await _webhooks(request).get(_id(request), tenant_of(request))))


async def put_webhook(request: Request) -> Response:
    """Replace the URL and events of a webhook and enable it. Its secret does not change."""
    wanted = await read_model(request, WebhookRequest)
    webhooks = _webhooks(request)
    endpoint = await webhooks.update(
        _id(request), wanted.spec(), wanted.description, tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook updated", extra={"webhook": endpoint.id})
    return _response(webhook_view(endpoint))


async def delete_webhook(request: Request) -> Response:
    """Delete a webhook and return it. Its pending deliveries are discarded."""
    endpoint = await _webhooks(request).delete(
        _id(request), tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook deleted", extra={"webhook": endpoint.id})
    return _response(webhook_view(endpoint))


async def enable_webhook(request: Request) -> Response:
    """Enable a webhook. Deliveries that it missed can be redelivered."""
    endpoint = await _webhooks(request).enable(
        _id(request), tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook enabled", extra={"webhook": endpoint.id})
    return _response(webhook_view(endpoint))


async def disable_webhook(request: Request) -> Response:
    """Disable a webhook. Its pending deliveries are discarded."""
    endpoint = await _webhooks(request).disable(
        _id(request), tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook disabled", extra={"webhook": endpoint.id})
    return _response(webhook_view(endpoint))


async def rotate_webhook(request: Request) -> Response:
    """Rotate a webhook's secret. For a day messages are signed with the previous one as well."""
    return await _rotate(request, _id(request))


async def get_secret(request: Request) -> Response:
    """Return the secret that signs messages to jobs' own webhooks."""
    check_kind(request, Scope.WRITE, None)
    secret = await _webhooks(request).secret(tenant_of(request))
    return _response({"secret": secret}, headers=_NO_STORE)


async def rotate_secret(request: Request) -> Response:
    """Rotate the secret of jobs' own webhooks. For a day messages are signed with both."""
    return await _rotate(request, OWN)


async def _rotate(request: Request, endpoint_id: str) -> Response:
    secret, until = await _webhooks(request).rotate(
        endpoint_id, tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook secret rotated", extra={"webhook": endpoint_id})
    rotated: NewSecret = {"secret": secret, "previous_until": to_rfc3339(until)}
    return _response(rotated, headers=_NO_STORE)


async def list_webhook_deliveries(request: Request) -> Response:
    """Return a page of a webhook's deliveries, newest first."""
    endpoint = await _webhooks(request).get(_id(request), tenant_of(request))
    return await _list(request, DeliveryFilter(tenant_of(request), endpoint.id))


async def list_job_deliveries(request: Request) -> Response:
    """Return a page of the deliveries about a job, newest first."""
    engine: Engine = request.app.state.engine
    job = await engine.get_without_result(request.path_params["job_id"], tenant_of(request))
    return await _list(request, DeliveryFilter(tenant_of(request), job_id=job.id))


async def _list(request: Request, which: DeliveryFilter) -> Response:
    query = request.query_params
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    state = None
    if (given := query.get("state")) is not None:
        if given not in list(DeliveryState):
            raise HTTPException(400, f"state must be one of {', '.join(DeliveryState)}")
        state = DeliveryState(given)
    before = None
    if (cursor := query.get("cursor")) is not None:
        at, _, written = read_cursor(cursor, _is_position).partition(" ")
        key = read_delivery_id(which.tenant, written)
        before = None if key is None else (int(at), key)
    engine: Engine = request.app.state.engine
    found = await engine.webhooks.deliveries(
        which._replace(state=state, before=before, limit=limit + 1)
    )
    more = None
    if len(found) > limit:
        last = found[limit - 1]
        more = write_cursor(f"{last.at} {delivery_id(last.key)}")
    listed = [delivery_view(delivery) for delivery in found[:limit]]
    page: DeliveryPage = {"deliveries": listed, "next_cursor": more}
    return _response(page)


def _is_position(text: str) -> bool:
    at, _, written = text.partition(" ")
    known = read_delivery_id("", written)
    return at.isascii() and at.isdigit() and len(at) < 16 and known is not None


async def get_delivery(request: Request) -> Response:
    """Return a delivery with its tries."""
    found = await _webhooks(request).delivery(request.path_params["delivery"], tenant_of(request))
    return _response(delivery_view(found))


async def redeliver(request: Request) -> Response:
    """Send a delivery again now, whatever its state, with the same id."""
    found = await _webhooks(request).redeliver(request.path_params["delivery"], tenant_of(request))
    log.info("redelivery requested", extra={"delivery": delivery_id(found.key)})
    return _response(delivery_view(found), 202)


async def redeliver_failed(request: Request) -> Response:
    """Send the failed deliveries of a webhook again, up to the newest 1,000."""
    count = await _webhooks(request).redeliver_failed(_id(request), tenant_of(request))
    log.info("redelivery requested", extra={"webhook": _id(request), "deliveries": count})
    return _response({"deliveries": count}, 202)


def webhook_view(endpoint: WebhookEndpoint) -> WebhookDocument:
    """Return a webhook without its secrets."""
    path = f"/v1/webhooks/{endpoint.id}"
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "events": types_of(endpoint.events),
        "description": endpoint.description,
        "enabled": endpoint.disabled_at is None,
        "failing_since": optional_time(endpoint.failing_since),
        "disabled_at": optional_time(endpoint.disabled_at),
        "disabled_why": endpoint.disabled_why,
        "created_at": to_rfc3339(endpoint.created_at),
        "links": {"self": path, "deliveries": f"{path}/deliveries"},
    }


def delivery_view(delivery: WebhookDelivery) -> DeliveryDocument:
    """Return a delivery with its tries."""
    key, id_ = delivery.key, delivery_id(delivery.key)
    links = {"self": f"/v1/webhooks/deliveries/{id_}", "job": f"/v1/jobs/{key.job_id}"}
    if key.endpoint != OWN:
        links["webhook"] = f"/v1/webhooks/{key.endpoint}"
    return {
        "id": id_,
        "message_id": message_id(key),
        "type": delivery.type,
        "timestamp": to_rfc3339(delivery.at),
        "job_id": key.job_id,
        "webhook": None if key.endpoint == OWN else key.endpoint,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "next_at": optional_time(delivery.due_at),
        "tries": [
            {
                "at": to_rfc3339(tried.at),
                "status": tried.status,
                "error": tried.error,
                "took_ms": tried.took_ms,
            }
            for tried in delivery.log
        ],
        "links": links,
    }


def _response(
    document: Mapping[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(dumps(document), status, headers, JSON)


def _webhooks(request: Request) -> WebhookEndpoints:
    """Return the webhooks of a tenant, which concern all its jobs: the key must cover all kinds."""
    check_kind(request, Scope.READ if request.method == "GET" else Scope.WRITE, None)
    engine: Engine = request.app.state.engine
    return engine.webhooks


def _id(request: Request) -> str:
    found: str = request.path_params["webhook"]
    return found
