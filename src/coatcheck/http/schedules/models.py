"""What `PUT /v1/schedules/{schedule}` takes."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from coatcheck.http.jobs.models import encode
from coatcheck.http.request.models import RequestModel, parse_time, validate_model
from coatcheck.model.schedule import DEFAULT_ZONE, CatchUp, Overlap, ScheduleDefinition, Timing


class ScheduleRequest(RequestModel):
    """The body: a job without its time, and when it comes back."""

    kind: str
    input: Any = None
    cron: str | None = None
    every_s: Annotated[float | None, Field(allow_inf_nan=False)] = None
    start_at: Annotated[int | None, BeforeValidator(parse_time)] = None
    timezone: str = DEFAULT_ZONE
    queue: str | None = None
    priority: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    deadline_s: float | None = None
    max_attempts: int | None = None
    catch_up: Literal["latest", "skip", "all"] = "latest"
    overlap: Literal["allow", "skip"] = "allow"


def read_definition(name: str, body: Any) -> ScheduleDefinition:
    """Check the shape of a schedule; raises InvalidPayload with a pointer to each problem."""
    asked = validate_model(body, ScheduleRequest, "a schedule")
    return ScheduleDefinition(
        name=name,
        kind=asked.kind,
        timing=Timing(
            cron=asked.cron,
            every_ms=None if asked.every_s is None else round(asked.every_s * 1000),
            start_at=asked.start_at,
            timezone=asked.timezone,
        ),
        input=encode(asked.input),
        queue=asked.queue,
        priority=asked.priority,
        labels=json.dumps(asked.labels, sort_keys=True),
        deadline_s=asked.deadline_s,
        max_attempts=asked.max_attempts,
        catch_up=CatchUp(asked.catch_up),
        overlap=Overlap(asked.overlap),
    )
