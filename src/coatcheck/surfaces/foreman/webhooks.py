"""State webhooks: a delivery at every change of a job's state, in the document's format.

The body holds the whole state of the job; a result that is too large has a URL. It is signed with a
secret that the operator sets. A delivery is attempted five times over a minute and a half, then
dropped: a receiver that missed it fetches the job.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import Job
from coatcheck.model.webhook import PHASE, PREFIX, WebhookDelivery
from coatcheck.model.webhook_format import FormatContext, FormattedWebhook
from coatcheck.relay.credentials import CallEncryption
from coatcheck.surfaces.foreman.constants import (
    DONE,
    FAILED,
    MODEL,
    QUEUED,
    SURFACE,
    state_after,
    state_set_by,
)
from coatcheck.surfaces.foreman.views import error_of, outcome_view, read_outcome

SIGNATURE = "X-Foreman-Signature"
SCHEDULE_S = (0, 1, 4, 15, 60)
# The events sent to a job's own endpoint; a claim alone changes no state of the document.
EVENTS = tuple(f"{PREFIX}{what}" for what in ("queued", PHASE, "succeeded", "failed", "cancelled"))
# How many earlier events are read to find the previous state.
_EARLIER_EVENTS = 20


class ForemanWebhookFormat:
    """The format of state webhooks."""

    surface = SURFACE
    schedule_s = SCHEDULE_S

    def __init__(self, secret: str, encryption: Callable[[], CallEncryption]) -> None:
        self._secret = secret
        self._encryption = encryption

    async def word(
        self, job: Job, delivery: WebhookDelivery, context: FormatContext
    ) -> FormattedWebhook | None:
        """Format a delivery; None if the state did not change."""
        state = state_set_by(_event_of(delivery))
        previous = state_after(await context.events_before(delivery, _EARLIER_EVENTS))
        if state is None or state == previous:
            return None
        outcome = None
        if state == DONE:
            outcome = await read_outcome(job, context.stream, self._encryption())
        payload: dict[str, Any] = {
            "job_id": job.public_id,
            "state": state,
            "previous_state": previous,
            "timestamp": to_rfc3339(delivery.at),
            "model": job.labels.get(MODEL),
            "attempt": json.loads(delivery.event).get("attempt", job.attempt),
            "error": error_of(job) if state in (QUEUED, FAILED) else None,
            **outcome_view(job, outcome),
        }
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        return FormattedWebhook(body, self._sign(body))

    def _sign(self, body: bytes) -> dict[str, str]:
        if not self._secret:
            return {}
        return {SIGNATURE: hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()}


def _event_of(delivery: WebhookDelivery) -> JobEvent:
    phase = delivery.type == f"{PREFIX}{PHASE}"
    kind = EventType.PROGRESS if phase else EventType.STATE
    return JobEvent(delivery.key.seq, kind, delivery.at, delivery.event)
