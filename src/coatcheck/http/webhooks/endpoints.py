"""The endpoints for webhooks, and the messages that webhooks receive."""

from __future__ import annotations

from typing import Any

from coatcheck.http.endpoint import (
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Handler,
    KindRule,
    Parameter,
    as_json,
    ref,
)
from coatcheck.http.request.query import MAX_PAGE
from coatcheck.http.webhooks import handlers
from coatcheck.model.access import Scope
from coatcheck.model.webhook import TYPES, DeliveryState

_ALL = "/v1/webhooks"
_ONE = "/v1/webhooks/{webhook}"
_DELIVERY = "/v1/webhooks/deliveries/{delivery}"
_WEBHOOK = as_json(ref("Webhook"))
_SECRET = as_json(ref("NewSecret"))
_PAGING = (
    Parameter("limit", "The page size.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
    Parameter(
        "cursor",
        "The `next_cursor` of the previous page.",
        {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
    ),
)
_DELIVERIES = (
    Parameter("state", "Only deliveries in this state.", {"enum": list(DeliveryState)}),
    *_PAGING,
)
_BODY = EndpointBody("The URL to notify, and the events.", as_json(ref("WebhookRequest")))
_BODY_ERRORS = (408, 413, 415, 422)


def _switch(verb: str, handler: Handler, summary: str) -> Endpoint:
    path, name = f"{_ONE}/{verb}", f"{verb}Webhook"
    responses = {200: EndpointResponse("The webhook.", _WEBHOOK)}
    return Endpoint(
        *("POST", path, handler, name, summary, "webhooks", responses, (404,)), kind=KindRule.ALL
    )


WEBHOOKS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        _ALL,
        handlers.list_webhooks,
        "listWebhooks",
        "List webhooks",
        "webhooks",
        {200: EndpointResponse("A page of webhooks, oldest first.", as_json(ref("WebhookPage")))},
        parameters=_PAGING,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "POST",
        _ALL,
        handlers.create_webhook,
        "createWebhook",
        "Create a webhook for all jobs",
        "webhooks",
        {
            201: EndpointResponse(
                "The webhook and its secret, which is shown once.",
                as_json(ref("NewWebhook")),
                ("Location",),
            )
        },
        error_statuses=(409, *_BODY_ERRORS),
        body=_BODY,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        f"{_ALL}/secret",
        handlers.get_secret,
        "getWebhookSecret",
        "Get the secret of jobs' own webhooks",
        "webhooks",
        {200: EndpointResponse("The secret.", as_json(ref("Secret")))},
        needs=Scope.WRITE,  # the secret allows forging messages
        kind=KindRule.ALL,
    ),
    Endpoint(
        "POST",
        f"{_ALL}/secret/rotate",
        handlers.rotate_secret,
        "rotateWebhookSecret",
        "Rotate the secret of jobs' own webhooks",
        "webhooks",
        {200: EndpointResponse("The new secret.", _SECRET)},
        error_statuses=(409,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        _DELIVERY,
        handlers.get_delivery,
        "getDelivery",
        "Get a delivery",
        "webhooks",
        {200: EndpointResponse("The delivery with its tries.", as_json(ref("Delivery")))},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "POST",
        f"{_DELIVERY}/redeliver",
        handlers.redeliver,
        "redeliver",
        "Send a delivery again",
        "webhooks",
        {202: EndpointResponse("The delivery is due now.", as_json(ref("Delivery")))},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        _ONE,
        handlers.get_webhook,
        "getWebhook",
        "Get a webhook",
        "webhooks",
        {200: EndpointResponse("The webhook.", _WEBHOOK)},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "PUT",
        _ONE,
        handlers.put_webhook,
        "putWebhook",
        "Replace a webhook",
        "webhooks",
        {200: EndpointResponse("The webhook was replaced.", _WEBHOOK)},
        error_statuses=(404, *_BODY_ERRORS),
        body=_BODY,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "DELETE",
        _ONE,
        handlers.delete_webhook,
        "deleteWebhook",
        "Delete a webhook",
        "webhooks",
        {200: EndpointResponse("The deleted webhook.", _WEBHOOK)},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    _switch("enable", handlers.enable_webhook, "Enable a webhook"),
    _switch("disable", handlers.disable_webhook, "Disable a webhook"),
    Endpoint(
        "POST",
        f"{_ONE}/rotate",
        handlers.rotate_webhook,
        "rotateWebhook",
        "Rotate a webhook's secret",
        "webhooks",
        {200: EndpointResponse("The new secret.", _SECRET)},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        f"{_ONE}/deliveries",
        handlers.list_webhook_deliveries,
        "listWebhookDeliveries",
        "List the deliveries of a webhook",
        "webhooks",
        {
            200: EndpointResponse(
                "A page of deliveries, newest first.", as_json(ref("DeliveryPage"))
            )
        },
        error_statuses=(404,),
        parameters=_DELIVERIES,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/redeliver",
        handlers.redeliver_failed,
        "redeliverFailed",
        "Send the failed deliveries of a webhook again",
        "webhooks",
        {
            202: EndpointResponse(
                "The number of deliveries that are due now.", as_json(ref("Redelivered"))
            )
        },
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/deliveries",
        handlers.list_job_deliveries,
        "listJobDeliveries",
        "List the deliveries about a job",
        "webhooks",
        {
            200: EndpointResponse(
                "A page of deliveries, newest first.", as_json(ref("DeliveryPage"))
            )
        },
        error_statuses=(404, 410),
        parameters=_DELIVERIES,
        kind=KindRule.JOB,
    ),
)


def webhook_messages() -> dict[str, Any]:
    """Describe the messages of webhooks, as OpenAPI's `webhooks`."""
    return {name: {"post": _message(name)} for name in TYPES}


def _message(name: str) -> dict[str, Any]:
    state = name.partition(".")[2]
    previous = "waiting" if state == "queued" else "running" if state != "running" else "queued"
    job_id = "01J8ZQ4R6T9X2B5N7M1K3C0VDE"
    example = {
        "type": name,
        "timestamp": "2030-01-31T09:00:00.000Z",
        "data": {
            "id": job_id,
            "kind": "report",
            "state": state,
            "attempt": 1,
            "previous": previous,
            "links": {"self": f"/v1/jobs/{job_id}"},
        },
    }
    signed = ("webhook-id", "webhook-timestamp", "webhook-signature")
    headers = [
        {"name": header, "in": "header", "required": True, "schema": {"type": "string"}}
        for header in signed
    ]
    return {
        "operationId": f"told{state.capitalize()}",
        "summary": f"A job is {state}",
        "description": "Signed according to Standard Webhooks. Respond with 2xx within 15 seconds; "
        "any other response is retried with the same webhook-id. 410 disables the webhook.",
        "tags": ["webhooks"],
        "parameters": headers,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": ref("WebhookMessage"), "example": example},
            },
        },
        "responses": {"2XX": {"description": "The message is accepted."}},
    }
