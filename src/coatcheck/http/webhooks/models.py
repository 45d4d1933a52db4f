"""What `POST /v1/webhooks` takes, and what a job that is submitted says of its own webhook."""

from __future__ import annotations

from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.http.request.models import RequestModel


class JobWebhook(RequestModel):
    """Whom to call about a job, and for which events (its end)."""

    url: str
    events: list[str] | None = None

    def asked(self) -> WebhookSpec:
        """Return it as the engine takes it."""
        return WebhookSpec(self.url, self.events)


class WebhookRequest(JobWebhook):
    """The same for all jobs."""

    description: str = ""
