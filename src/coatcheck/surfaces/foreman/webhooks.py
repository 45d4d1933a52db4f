"""State webhooks: a call at every change of a job's state, in the words of its document.

The body says all there is to say, so nobody has to ask back; what it cannot hold has an address. It
is signed with a secret that the operator sets. A call that is not taken is tried again, five times
in all over a minute and a half, then dropped: whoever missed it asks for the job.
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
    told_by,
    word_after,
)
from coatcheck.surfaces.foreman.views import error_of, outcome_of, outcome_view

SIGNATURE = "X-Foreman-Signature"
SCHEDULE_S = (0, 1, 4, 15, 60)
# Of these a job's own endpoint hears; that it was claimed changes nothing in these words.
EVENTS = tuple(f"{PREFIX}{what}" for what in ("queued", PHASE, "succeeded", "failed", "cancelled"))
# How far back the state before is looked for.
_LOOKED_BACK = 20


class ForemanWebhookFormat:
    """How state webhooks look."""

    surface = SURFACE
    schedule_s = SCHEDULE_S

    def __init__(self, secret: str, secrecy: Callable[[], CallEncryption]) -> None:
        self._secret = secret
        self._secrecy = secrecy

    async def word(
        self, job: Job, delivery: WebhookDelivery, told: FormatContext
    ) -> FormattedWebhook | None:
        """Say what is sent; None where the state is the one before."""
        state = told_by(_event_of(delivery))
        previous = word_after(await told.events_before(delivery, _LOOKED_BACK))
        if state is None or state == previous:
            return None
        outcome = None
        if state == DONE:
            outcome = await outcome_of(job, told.stream, self._secrecy())
        said: dict[str, Any] = {
            "job_id": job.public_id,
            "state": state,
            "previous_state": previous,
            "timestamp": to_rfc3339(delivery.at),
            "model": job.labels.get(MODEL),
            "attempt": json.loads(delivery.event).get("attempt", job.attempt),
            "error": error_of(job) if state in (QUEUED, FAILED) else None,
            **outcome_view(job, outcome),
        }
        body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        return FormattedWebhook(body, self._signed(body))

    def _signed(self, body: bytes) -> dict[str, str]:
        if not self._secret:
            return {}
        return {SIGNATURE: hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()}


def _event_of(delivery: WebhookDelivery) -> JobEvent:
    phase = delivery.type == f"{PREFIX}{PHASE}"
    kind = EventType.PROGRESS if phase else EventType.STATE
    return JobEvent(delivery.key.seq, kind, delivery.at, delivery.event)
