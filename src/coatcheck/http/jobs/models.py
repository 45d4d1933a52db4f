"""What `POST /v1/jobs` takes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import to_json

from coatcheck.engine.submit.submission import Submission
from coatcheck.http.request.models import RequestModel, parse_time, validate_model
from coatcheck.http.webhooks.models import JobWebhook

# A submission that says no more than this needs no model to be read.
_PLAIN = frozenset(("kind", "input"))


def encode(value: object) -> str:
    """Write what was read from JSON as JSON again."""
    return to_json(value).decode()


class JobRequest(RequestModel):
    """The body of a submission."""

    kind: str
    input: Any = None
    queue: str | None = None
    priority: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    run_at: Annotated[int | None, BeforeValidator(parse_time)] = None
    deadline_s: float | None = None
    max_attempts: int | None = None
    webhook: JobWebhook | None = None


def read_submission(
    body: Any, *, correlation: str | None = None, traceparent: str | None = None
) -> Submission:
    """Check the shape of a submission; raises InvalidPayload with a pointer to each problem."""
    if isinstance(body, dict) and body.keys() <= _PLAIN and isinstance(body.get("kind"), str):
        return Submission(
            body["kind"],
            to_json(body.get("input")).decode(),
            correlation_id=correlation,
            traceparent=traceparent,
        )
    asked = validate_model(body, JobRequest, "a job")
    return Submission(
        kind=asked.kind,
        input=encode(asked.input),
        queue=asked.queue,
        priority=asked.priority,
        labels=asked.labels,
        run_at=asked.run_at,
        deadline_s=asked.deadline_s,
        max_attempts=asked.max_attempts,
        webhook=None if asked.webhook is None else asked.webhook.asked(),
        correlation_id=correlation,
        traceparent=traceparent,
    )
