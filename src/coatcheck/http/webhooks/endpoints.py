"""The part of the table of calls that is about handlers, and what they tell."""

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
_A_WEBHOOK = as_json(ref("Webhook"))
_SECRET = as_json(ref("NewSecret"))
_PAGING = (
    Parameter("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
    Parameter(
        "cursor",
        "`next_cursor` of the page before.",
        {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
    ),
)
_DELIVERIES = (
    Parameter("state", "Only those in this state.", {"enum": list(DeliveryState)}),
    *_PAGING,
)
_BODY = EndpointBody("Whom to call, and for which events.", as_json(ref("WebhookRequest")))
_TAKEN_IN = (408, 413, 415, 422)


def _steering(deed: str, handler: Handler, summary: str) -> Endpoint:
    path, name = f"{_ONE}/{deed}", f"{deed}Webhook"
    answers = {200: EndpointResponse("The webhook.", _A_WEBHOOK)}
    return Endpoint(
        *("POST", path, handler, name, summary, "webhooks", answers, (404,)), kind=KindRule.ALL
    )


WEBHOOKS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        _ALL,
        handlers.list_webhooks,
        "listWebhooks",
        "List the webhooks",
        "webhooks",
        {
            200: EndpointResponse(
                "A page of handlers, the oldest first.", as_json(ref("WebhookPage"))
            )
        },
        parameters=_PAGING,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "POST",
        _ALL,
        handlers.create_webhook,
        "createWebhook",
        "Be called about all jobs",
        "webhooks",
        {
            201: EndpointResponse(
                "It, and its secret: the only time.", as_json(ref("NewWebhook")), ("Location",)
            )
        },
        error_statuses=(409, *_TAKEN_IN),
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
        needs=Scope.WRITE,  # who has it can make messages up
        kind=KindRule.ALL,
    ),
    Endpoint(
        "POST",
        f"{_ALL}/secret/rotate",
        handlers.rotate_secret,
        "rotateWebhookSecret",
        "Replace the secret of jobs' own webhooks",
        "webhooks",
        {200: EndpointResponse("The new one.", _SECRET)},
        error_statuses=(409,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        _DELIVERY,
        handlers.get_delivery,
        "getDelivery",
        "Look at a delivery",
        "webhooks",
        {200: EndpointResponse("The delivery and its tries.", as_json(ref("Delivery")))},
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
        {202: EndpointResponse("It is due now.", as_json(ref("Delivery")))},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        _ONE,
        handlers.get_webhook,
        "getWebhook",
        "Look at a webhook",
        "webhooks",
        {200: EndpointResponse("The webhook.", _A_WEBHOOK)},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "PUT",
        _ONE,
        handlers.put_webhook,
        "putWebhook",
        "Change a webhook",
        "webhooks",
        {200: EndpointResponse("It says this now.", _A_WEBHOOK)},
        error_statuses=(404, *_TAKEN_IN),
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
        {200: EndpointResponse("What it was.", _A_WEBHOOK)},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    _steering("enable", handlers.enable_webhook, "Let a webhook be called again"),
    _steering("disable", handlers.disable_webhook, "Stop calling a webhook"),
    Endpoint(
        "POST",
        f"{_ONE}/rotate",
        handlers.rotate_webhook,
        "rotateWebhook",
        "Replace a webhook's secret",
        "webhooks",
        {200: EndpointResponse("The new one.", _SECRET)},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        f"{_ONE}/deliveries",
        handlers.list_webhook_deliveries,
        "listWebhookDeliveries",
        "List what a webhook was told",
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
        "Send again what a webhook has not taken",
        "webhooks",
        {202: EndpointResponse("How many are due now.", as_json(ref("Redelivered")))},
        error_statuses=(404,),
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        "/v1/jobs/{job_id}/deliveries",
        handlers.list_job_deliveries,
        "listJobDeliveries",
        "List what was told of a job",
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


def told() -> dict[str, Any]:
    """Describe what webhooks tell, as OpenAPI's `webhooks`."""
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
        "description": "Signed as Standard Webhooks say. Answer 2xx within 15 seconds; anything "
        "else is tried again, under the same webhook-id. 410 disables the webhook.",
        "tags": ["webhooks"],
        "parameters": headers,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": ref("WebhookMessage"), "example": example},
            },
        },
        "responses": {"2XX": {"description": "It is taken."}},
    }
