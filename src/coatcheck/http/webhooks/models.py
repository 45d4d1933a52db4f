"""The bodies of webhook requests, and the webhook of a submitted job."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coatcheck.documents.schema import documented_as, nullable, schema_of
from coatcheck.documents.webhooks import MessageType
from coatcheck.egress.target import LONGEST_URL
from coatcheck.engine.webhooks.endpoints import LONGEST_DESCRIPTION, WebhookSpec
from coatcheck.http.request.models import RequestModel

_URL = {"type": "string", "pattern": "^https?://", "maxLength": LONGEST_URL}
_EVENTS = nullable({"type": "array", "items": schema_of(MessageType), "minItems": 1})
_DESCRIPTION = {"type": "string", "maxLength": LONGEST_DESCRIPTION, "default": ""}


class JobWebhook(RequestModel):
    """The URL to notify of a job, and the events; by default, when it is finished."""

    url: Annotated[str, Field(json_schema_extra=documented_as(_URL))]
    events: Annotated[list[str] | None, Field(json_schema_extra=documented_as(_EVENTS))] = None

    def spec(self) -> WebhookSpec:
        """Return the engine's form of the webhook."""
        return WebhookSpec(self.url, self.events)


class WebhookRequest(JobWebhook):
    """The URL to notify of all jobs, and the events."""

    description: Annotated[str, Field(json_schema_extra=documented_as(_DESCRIPTION))] = ""
