"""The shapes of what is taken, answered and told about webhooks, as JSON Schema."""

from __future__ import annotations

from coatcheck.egress.target import LONGEST_URL
from coatcheck.engine.webhooks.endpoints import LONGEST_DESCRIPTION
from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.json_schema import COUNT, STATE, TEXT, TIME, listed, maybe, whole
from coatcheck.http.webhooks.models import JobWebhook, WebhookRequest
from coatcheck.model.webhook import SECRET_PREFIX, TYPES, DeliveryState

_TYPE: Schema = {"type": "string", "enum": list(TYPES)}
_SECRET: Schema = {"type": "string", "pattern": f"^{SECRET_PREFIX}"}
_LINKS: Schema = {"type": "object", "additionalProperties": TEXT}
_ASKED: dict[str, Schema] = {
    "url": {"type": "string", "pattern": "^https?://", "maxLength": LONGEST_URL},
    "events": maybe({**listed(_TYPE), "minItems": 1}),
}
_WEBHOOK: dict[str, Schema] = {
    "id": TEXT,
    "url": TEXT,
    "events": listed(_TYPE),
    "description": TEXT,
    "enabled": {"type": "boolean"},
    "failing_since": maybe(TIME),
    "disabled_at": maybe(TIME),
    "disabled_why": maybe(TEXT),
    "created_at": TIME,
    "links": _LINKS,
}
_DELIVERY = whole(
    {
        "id": TEXT,
        "message_id": {"type": "string", "description": "What `webhook-id` says."},
        "type": _TYPE,
        "timestamp": TIME,
        "job_id": TEXT,
        "webhook": maybe(TEXT),
        "state": {"type": "string", "enum": list(DeliveryState)},
        "attempts": COUNT,
        "next_at": maybe(TIME),
        "tries": listed(
            whole({"at": TIME, "status": maybe(COUNT), "error": maybe(TEXT), "took_ms": COUNT})
        ),
        "links": _LINKS,
    }
)
# Members may be added to what is told, so others are possible.
_MESSAGE: Schema = {
    "type": "object",
    "required": ["type", "timestamp", "data"],
    "properties": {
        "type": _TYPE,
        "timestamp": {**TIME, "description": "When it happened, not when it was sent."},
        "data": {
            "type": "object",
            "required": ["id", "kind", "state", "attempt", "previous", "links"],
            "properties": {
                "id": {"type": "string", "description": "The job's."},
                "kind": TEXT,
                "state": STATE,
                "attempt": COUNT,
                "previous": STATE,
                "reason": TEXT,
                "error": {"type": "object", "properties": {"code": TEXT}},
                "links": _LINKS,
            },
        },
    },
}


def webhook_components() -> dict[str, Schema]:
    """Return every named shape."""
    job_webhook, request = JobWebhook.model_json_schema(), WebhookRequest.model_json_schema()
    job_webhook["properties"] |= _ASKED
    description = {"type": "string", "maxLength": LONGEST_DESCRIPTION, "default": ""}
    request["properties"] |= {**_ASKED, "description": description}
    return {
        "JobWebhook": job_webhook,
        "WebhookRequest": request,
        "Webhook": whole(_WEBHOOK),
        "NewWebhook": whole({**_WEBHOOK, "secret": _SECRET}),
        "WebhookPage": whole({"webhooks": listed(ref("Webhook")), "next_cursor": maybe(TEXT)}),
        "Secret": whole({"secret": _SECRET}),
        "NewSecret": whole({"secret": _SECRET, "previous_until": TIME}),
        "Delivery": _DELIVERY,
        "DeliveryPage": whole({"deliveries": listed(ref("Delivery")), "next_cursor": maybe(TEXT)}),
        "Redelivered": whole({"deliveries": COUNT}),
        "WebhookMessage": _MESSAGE,
    }
