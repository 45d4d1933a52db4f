"""The calls on webhooks: endpoints, their secrets, what was delivered, sending it again."""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.engine.webhooks.endpoints import WebhookEndpoints
from coatcheck.http.auth.caller import actor_of, check_kind, tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
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

# An answer that holds a secret is kept by nobody on the way.
_NOT_KEPT = {"Cache-Control": "no-store"}


async def create_webhook(request: Request) -> Response:
    """Have all jobs' events told to an address; its secret is in this answer and in no other."""
    asked = await read_model(request, WebhookRequest)
    endpoint, secret = await _webhooks(request).create(
        asked.asked(), asked.description, tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook made", extra={"webhook": endpoint.id})
    headers = {"Location": f"/v1/webhooks/{endpoint.id}", **_NOT_KEPT}
    return _answer({**webhook_view(endpoint), "secret": secret}, 201, headers)


async def list_webhooks(request: Request) -> Response:
    """Answer with a page of webhooks, the oldest first."""
    query = request.query_params
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    after = "" if (cursor := query.get("cursor")) is None else read_cursor(cursor)
    found = await _webhooks(request).page(after, limit + 1, tenant_of(request))
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    listed = [webhook_view(endpoint) for endpoint in found[:limit]]
    return _answer({"webhooks": listed, "next_cursor": more})


async def get_webhook(request: Request) -> Response:
    """Answer with one webhook."""
    return _answer(webhook_view(await _webhooks(request).get(_id(request), tenant_of(request))))


async def put_webhook(request: Request) -> Response:
    """Change where a webhook leads and what it hears of; it is enabled then. Its secret stays."""
    asked = await read_model(request, WebhookRequest)
    webhooks = _webhooks(request)
    endpoint = await webhooks.update(
        _id(request), asked.asked(), asked.description, tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook changed", extra={"webhook": endpoint.id})
    return _answer(webhook_view(endpoint))


async def delete_webhook(request: Request) -> Response:
    """Delete a webhook, and answer with what it was; what is pending for it is called off."""
    endpoint = await _webhooks(request).delete(
        _id(request), tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook deleted", extra={"webhook": endpoint.id})
    return _answer(webhook_view(endpoint))


async def enable_webhook(request: Request) -> Response:
    """Let a webhook be called again; what it has missed can be redelivered."""
    endpoint = await _webhooks(request).enable(
        _id(request), tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook enabled", extra={"webhook": endpoint.id})
    return _answer(webhook_view(endpoint))


async def disable_webhook(request: Request) -> Response:
    """Stop calling a webhook; what is pending for it is called off."""
    endpoint = await _webhooks(request).disable(
        _id(request), tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook disabled by hand", extra={"webhook": endpoint.id})
    return _answer(webhook_view(endpoint))


async def rotate_webhook(request: Request) -> Response:
    """Make a new secret; for a day messages are signed with the one before as well."""
    return await _rotate(request, _id(request))


async def get_secret(request: Request) -> Response:
    """Answer with what calls to jobs' own webhooks are signed with."""
    check_kind(request, Scope.WRITE, None)
    secret = await _webhooks(request).secret(tenant_of(request))
    return _answer({"secret": secret}, headers=_NOT_KEPT)


async def rotate_secret(request: Request) -> Response:
    """Make a new one; for a day messages are signed with the one before as well."""
    return await _rotate(request, OWN)


async def _rotate(request: Request, endpoint_id: str) -> Response:
    secret, until = await _webhooks(request).rotate(
        endpoint_id, tenant_of(request), actor=actor_of(request)
    )
    log.info("webhook secret rotated", extra={"webhook": endpoint_id})
    rotated = {"secret": secret, "previous_until": to_rfc3339(until)}
    return _answer(rotated, headers=_NOT_KEPT)


async def list_webhook_deliveries(request: Request) -> Response:
    """Answer with a page of what a webhook was told, newest first."""
    endpoint = await _webhooks(request).get(_id(request), tenant_of(request))
    return await _list(request, DeliveryFilter(tenant_of(request), endpoint.id))


async def list_job_deliveries(request: Request) -> Response:
    """Answer with a page of what was told of a job, and to whom, newest first."""
    engine: Engine = request.app.state.engine
    job = await engine.get_without_result(request.path_params["job_id"], tenant_of(request))
    return await _list(request, DeliveryFilter(tenant_of(request), job_id=job.id))


async def _list(request: Request, which: DeliveryFilter) -> Response:
    query = request.query_params
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    state = None
    if (given := query.get("state")) is not None:
        if given not in list(DeliveryState):
            raise HTTPException(400, f"state is one of {', '.join(DeliveryState)}")
        state = DeliveryState(given)
    before = None
    if (cursor := query.get("cursor")) is not None:
        at, _, written = read_cursor(cursor, _can_be_last).partition(" ")
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
    return _answer({"deliveries": listed, "next_cursor": more})


def _can_be_last(text: str) -> bool:
    at, _, written = text.partition(" ")
    known = read_delivery_id("", written)
    return at.isascii() and at.isdigit() and len(at) < 16 and known is not None


async def get_delivery(request: Request) -> Response:
    """Answer with one delivery and its tries."""
    found = await _webhooks(request).delivery(request.path_params["delivery"], tenant_of(request))
    return _answer(delivery_view(found))


async def redeliver(request: Request) -> Response:
    """Send a delivery again now, whatever became of it, under the id it has."""
    found = await _webhooks(request).redeliver(request.path_params["delivery"], tenant_of(request))
    log.info("redelivery asked", extra={"delivery": delivery_id(found.key)})
    return _answer(delivery_view(found), 202)


async def redeliver_failed(request: Request) -> Response:
    """Send again what a webhook has not taken, the newest thousand."""
    count = await _webhooks(request).redeliver_failed(_id(request), tenant_of(request))
    log.info("redelivery asked", extra={"webhook": _id(request), "deliveries": count})
    return _answer({"deliveries": count}, 202)


def webhook_view(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Show a webhook, without its secrets."""
    path = f"/v1/webhooks/{endpoint.id}"
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "events": types_of(endpoint.events),
        "description": endpoint.description,
        "enabled": endpoint.disabled_at is None,
        "failing_since": _time(endpoint.failing_since),
        "disabled_at": _time(endpoint.disabled_at),
        "disabled_why": endpoint.disabled_why,
        "created_at": to_rfc3339(endpoint.created_at),
        "links": {"self": path, "deliveries": f"{path}/deliveries"},
    }


def delivery_view(delivery: WebhookDelivery) -> dict[str, Any]:
    """Show a delivery and its tries."""
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
        "next_at": _time(delivery.due_at),
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


def _answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(dumps(body), status, headers, JSON)


def _webhooks(request: Request) -> WebhookEndpoints:
    """Return what is asked about all jobs of a tenant: it takes a key for all kinds."""
    check_kind(request, Scope.READ if request.method == "GET" else Scope.WRITE, None)
    engine: Engine = request.app.state.engine
    return engine.webhooks


def _id(request: Request) -> str:
    found: str = request.path_params["webhook"]
    return found


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else to_rfc3339(milliseconds)
