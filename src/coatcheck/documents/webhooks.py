"""Webhooks, their deliveries and messages."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from coatcheck.documents.fields import Count, Links, StateName, Timestamp
from coatcheck.documents.schema import Document
from coatcheck.model.webhook import SECRET_PREFIX, TYPES, DeliveryState

MessageType = Annotated[str, WithJsonSchema({"type": "string", "enum": list(TYPES)})]
_Secret = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{SECRET_PREFIX}"})]


class WebhookDocument(Document):
    """A webhook endpoint that is notified of a tenant's jobs."""

    id: str
    url: str
    events: list[MessageType]
    description: str
    enabled: bool
    failing_since: Timestamp | None
    disabled_at: Timestamp | None
    disabled_why: str | None
    created_at: Timestamp
    links: Links


class NewWebhook(WebhookDocument):
    """A new webhook with its secret, which is shown once."""

    secret: _Secret


class WebhookPage(Document):
    """A page of webhooks."""

    webhooks: list[WebhookDocument]
    next_cursor: str | None


class SecretDocument(Document):
    """The secret that signs messages to jobs' own webhooks."""

    secret: _Secret


class NewSecret(Document):
    """A rotated secret; messages are also signed with the previous one for a while."""

    secret: _Secret
    previous_until: Timestamp


class DeliveryTry(Document):
    """One request to a webhook."""

    at: Timestamp
    status: Count | None
    error: str | None
    took_ms: Count


class DeliveryDocument(Document):
    """One message to one webhook."""

    id: str
    message_id: Annotated[str, Field(description="The value of the `webhook-id` header.")]
    type: MessageType
    timestamp: Timestamp
    job_id: str
    webhook: str | None
    state: Annotated[str, WithJsonSchema({"type": "string", "enum": list(DeliveryState)})]
    attempts: Count
    next_at: Timestamp | None
    tries: list[DeliveryTry]
    links: Links


class DeliveryPage(Document):
    """A page of deliveries."""

    deliveries: list[DeliveryDocument]
    next_cursor: str | None


class RedeliveredDocument(Document):
    """The number of deliveries that were queued again."""

    deliveries: Count


class MessageError(TypedDict):
    """The error of a failed job."""

    code: NotRequired[str]


class MessageData(TypedDict):
    """The job that a message is about. Later versions may add members."""

    id: Annotated[str, Field(description="The job's id.")]
    kind: str
    state: StateName
    attempt: Count
    previous: StateName
    reason: NotRequired[str]
    error: NotRequired[MessageError]
    links: Links


class WebhookMessage(TypedDict):
    """The body of a webhook message. Later versions may add members."""

    type: MessageType
    timestamp: Annotated[Timestamp, Field(description="When the event happened, not when sent.")]
    data: MessageData
