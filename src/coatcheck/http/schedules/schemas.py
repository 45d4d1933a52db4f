"""The shapes of schedules."""

from __future__ import annotations

from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.jobs.schemas import JOB_LIMITS
from coatcheck.http.json_schema import ANYTHING, COUNT, TEXT, TIME, WHOLE, listed, maybe, whole
from coatcheck.http.schedules.models import ScheduleRequest
from coatcheck.model.schedule import LONGEST_MS, SHORTEST_MS, CatchUp, Overlap

_OF_JOBS_ALONE = ("run_at", "webhook")
# The same for schedules, and what model/schedule.py asks.
_SCHEDULE_LIMITS: dict[str, Schema] = {
    **{name: of for name, of in JOB_LIMITS.items() if name not in _OF_JOBS_ALONE},
    "cron": maybe({"type": "string", "maxLength": 200}),
    "every_s": maybe(
        {"type": "number", "minimum": SHORTEST_MS / 1000, "maximum": LONGEST_MS / 1000}
    ),
    "start_at": maybe(TIME),
}
_SCHEDULE = whole(
    {
        "name": TEXT,
        "kind": TEXT,
        "input": ANYTHING,
        "cron": maybe(TEXT),
        "every_s": maybe({"type": "number"}),
        "start_at": maybe(TIME),
        "timezone": TEXT,
        "queue": maybe(TEXT),
        "priority": WHOLE,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "deadline_s": maybe({"type": "number"}),
        "max_attempts": maybe(COUNT),
        "catch_up": {"type": "string", "enum": list(CatchUp)},
        "overlap": {"type": "string", "enum": list(Overlap)},
        "declared": {"type": "boolean"},
        "paused": {"type": "boolean"},
        "next_at": maybe(TIME),
        "last_at": maybe(TIME),
        "last_job": maybe(TEXT),
        "problem": maybe(TEXT),
        "created_at": TIME,
        "updated_at": TIME,
        "links": {"type": "object", "additionalProperties": TEXT},
    }
)


def schedule_components() -> dict[str, Schema]:
    """Return every named shape."""
    schedule_request = ScheduleRequest.model_json_schema()
    schedule_request["properties"] |= _SCHEDULE_LIMITS
    return {
        "Schedule": _SCHEDULE,
        "SchedulePage": whole({"schedules": listed(ref("Schedule")), "next_cursor": maybe(TEXT)}),
        "ScheduleRequest": schedule_request,
        "Ticks": whole({"ticks": listed(TIME)}),
    }
