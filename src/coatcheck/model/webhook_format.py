"""A surface's own format for the webhooks of its jobs.

Deliveries follow Standard Webhooks unless a kind declares a `WebhookFormat`, which defines the
body, the signature and the retry schedule. The format applies to jobs that were submitted through
its surface, and only to a job's own endpoint. A tenant's endpoints get Standard Webhooks for all
jobs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.artifact import Artifact
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job
from coatcheck.model.webhook import WebhookDelivery


class FormattedWebhook(NamedTuple):
    """The body of a delivery, and headers in addition to those of every delivery."""

    body: bytes
    headers: Mapping[str, str]


class FormatContext(Protocol):
    """The data that a format may read besides the job: earlier events and artifacts."""

    async def events_before(self, delivery: WebhookDelivery, most: int) -> Sequence[JobEvent]:
        """Return the newest events of the job before that of the delivery, in order."""
        ...

    async def stream(self, artifact: Artifact) -> AsyncIterator[bytes]:
        """Open an artifact of the job."""
        ...


class WebhookFormat(Protocol):
    """The webhook format of one surface."""

    @property
    def surface(self) -> str:
        """The surface whose jobs it applies to."""
        ...

    @property
    def schedule_s(self) -> Sequence[float]:
        """The seconds before each attempt, counted from the previous one."""
        ...

    async def word(
        self, job: Job, delivery: WebhookDelivery, told: FormatContext
    ) -> FormattedWebhook | None:
        """Format a delivery; return None if the surface does not send this event."""
        ...
