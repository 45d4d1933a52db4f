"""The body of `POST /v1/jobs`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic_core import to_json

from coatcheck.documents.fields import Name
from coatcheck.documents.schema import documented_as, nullable, omit_default, schema_of
from coatcheck.engine.submit.submission import (
    LABEL_KEY,
    LABEL_VALUE_LENGTH,
    LABELS_AT_MOST,
    LONGEST_DEADLINE_S,
    MAX_ATTEMPTS,
    PRIORITIES,
    Submission,
)
from coatcheck.http.jobs.fast_submit import read_plain_submission
from coatcheck.http.request.models import OptionalTime, RequestModel, validate_model
from coatcheck.http.webhooks.models import JobWebhook

# The members that jobs and schedules share. engine/submit/submission.py checks their limits.
Queue = Annotated[str | None, Field(json_schema_extra=documented_as(nullable(schema_of(Name))))]
Priority = Annotated[
    int,
    Field(
        json_schema_extra=documented_as(
            {"type": "integer", "minimum": min(PRIORITIES), "maximum": max(PRIORITIES)}
        )
    ),
]
Labels = Annotated[
    dict[str, str],
    Field(
        json_schema_extra=documented_as(
            {
                "type": "object",
                "maxProperties": LABELS_AT_MOST,
                "propertyNames": {"pattern": f"^{LABEL_KEY.pattern}$"},
                "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE_LENGTH},
            }
        )
    ),
]
Deadline = Annotated[
    float | None,
    Field(
        json_schema_extra=documented_as(
            nullable({"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DEADLINE_S})
        )
    ),
]
MaxAttempts = Annotated[
    int | None,
    Field(
        json_schema_extra=documented_as(
            nullable(
                {"type": "integer", "minimum": min(MAX_ATTEMPTS), "maximum": max(MAX_ATTEMPTS)}
            )
        )
    ),
]


def encode(value: object) -> str:
    """Serialize a parsed JSON value."""
    return to_json(value).decode()


class JobRequest(RequestModel):
    """A job to submit."""

    kind: str
    input: Any = None
    queue: Queue = None
    priority: Priority = 0
    labels: Labels = Field(default_factory=dict)
    run_at: OptionalTime = None
    deadline_s: Deadline = None
    max_attempts: MaxAttempts = None
    webhook: Annotated[JobWebhook | None, Field(json_schema_extra=omit_default)] = None


def read_submission(
    body: Any, *, correlation: str | None = None, traceparent: str | None = None
) -> Submission:
    """Validate the body of a submit; raise InvalidPayload with a pointer to each problem."""
    plain = read_plain_submission(body, correlation, traceparent)
    if plain is not None:
        return plain
    job = validate_model(body, JobRequest, "a job")
    return Submission(
        kind=job.kind,
        input=encode(job.input),
        queue=job.queue,
        priority=job.priority,
        labels=job.labels,
        run_at=job.run_at,
        deadline_s=job.deadline_s,
        max_attempts=job.max_attempts,
        webhook=None if job.webhook is None else job.webhook.spec(),
        correlation_id=correlation,
        traceparent=traceparent,
    )
