"""How a surface words what the own endpoints of its jobs are told.

Deliveries are Standard Webhooks, unless a kind brings another wording: what the document of its
surface says of the body, of the signature and of how often a delivery is tried. It holds for jobs
that came in by that surface, and for the endpoint that such a job brought along. A tenant's
endpoints are told of all jobs in the same words.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.artifact import Artifact
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job
from coatcheck.model.webhook import WebhookDelivery


class FormattedWebhook(NamedTuple):
    """What is sent: headers are added to those that every call has."""

    body: bytes
    headers: Mapping[str, str]


class FormatContext(Protocol):
    """What a wording may look at beside the job: what was before, and files it has left behind."""

    async def events_before(self, delivery: WebhookDelivery, most: int) -> Sequence[JobEvent]:
        """Return the newest entries of the job's log before what a delivery tells of, in order."""
        ...

    async def stream(self, artifact: Artifact) -> AsyncIterator[bytes]:
        """Open a file of the job."""
        ...


class WebhookFormat(Protocol):
    """The words of one surface."""

    @property
    def surface(self) -> str:
        """Whose jobs it is for."""
        ...

    @property
    def schedule_s(self) -> Sequence[float]:
        """Seconds after the try before at which a delivery is tried: as many as there are tries."""
        ...

    async def word(
        self, job: Job, delivery: WebhookDelivery, told: FormatContext
    ) -> FormattedWebhook | None:
        """Say what is sent; None where it is nothing new in the words of this surface."""
        ...
