"""The shapes of what the API takes and answers, as JSON Schema, for OpenAPI."""

from __future__ import annotations

from typing import Any

from coatcheck.engine.submission import (
    LABEL_KEY,
    LABEL_VALUE_LENGTH,
    LABELS_AT_MOST,
    LONGEST_DEADLINE_S,
    MAX_ATTEMPTS,
    PRIORITIES,
)
from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.job_request import JobRequest
from coatcheck.http.leases import ClaimRequest, CompleteRequest, FailRequest, ProgressRequest
from coatcheck.http.queues import QueueRequest
from coatcheck.model.event import EventType
from coatcheck.model.names import NAME_PATTERN, NAME_RULE
from coatcheck.model.state import Reason, State

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
ID: Schema = {
    "type": "string",
    "description": "A ULID, or the public id that a surface gave the job.",
}
ANYTHING: Schema = {}
NAME: Schema = {"type": "string", "pattern": f"^{NAME_PATTERN}$", "description": NAME_RULE}


def maybe(schema: Schema) -> Schema:
    """Say that null is possible too."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """Say that there are several."""
    return {"type": "array", "items": schema}


def whole(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Describe an object that has these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


STATE: Schema = {"type": "string", "enum": list(State)}

_ERROR = whole(
    {"code": TEXT, "message": TEXT, "detail": maybe(TEXT), "retryable": {"type": "boolean"}}
)
_PROGRESS = whole(
    {
        "done": {"type": "number"},
        "total": maybe({"type": "number"}),
        "message": maybe(TEXT),
    }
)
_JOB = whole(
    {
        "id": TEXT,
        "kind": TEXT,
        "surface": TEXT,
        "queue": TEXT,
        "state": STATE,
        "phase": maybe(TEXT),
        "reason": maybe({"type": "string", "enum": list(Reason)}),
        "attempt": COUNT,
        "max_attempts": COUNT,
        "priority": WHOLE,
        "progress": maybe(_PROGRESS),
        "created_at": TIME,
        "run_at": TIME,
        "started_at": maybe(TIME),
        "finished_at": maybe(TIME),
        "expires_at": maybe(TIME),
        "labels": {"type": "object", "additionalProperties": TEXT},
        "parent": maybe(TEXT),
        "forked_from": maybe(TEXT),
        "result": ANYTHING,
        "error": maybe(ref("Error")),
        "artifacts": listed(ANYTHING),
        "links": {"type": "object", "additionalProperties": TEXT},
        "position": {
            "description": "Its place in the queue, from 1, while it waits for its turn.",
            "anyOf": [COUNT, {"const": "1000+"}],
        },
        "explain": listed(whole({"code": TEXT, "message": TEXT})),
    },
    optional=("position", "explain"),
)
_EVENT = whole(
    {
        "seq": COUNT,
        "type": {"type": "string", "enum": list(EventType)},
        "at": TIME,
        "data": {"type": "object"},
    }
)
# As in the OpenAPI that comes: what one event of the stream looks like.
STREAMED: Schema = {
    "type": "object",
    "description": "One event; its data is the JSON of an Event, or of the Job for reset and end.",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"enum": [*EventType, "reset", "end"]},
        "data": TEXT,
        "retry": WHOLE,
    },
}
_PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457; `type` is stable, the sentences may change.",
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": TEXT,
        "status": WHOLE,
        "detail": TEXT,
        "errors": listed(whole({"pointer": TEXT, "detail": TEXT})),
        "correlation_id": TEXT,
    },
    "required": ["type", "title", "status", "detail"],
}
_KIND = whole(
    {
        "name": TEXT,
        "queue": TEXT,
        "isolation": TEXT,
        "concurrency": maybe(COUNT),
        "concurrency_by_key": {"type": "boolean"},
        "rate": maybe(TEXT),
        "version": maybe(TEXT),
        "max_attempts": COUNT,
        "on_lost": TEXT,
        "timeout_s": {"type": "number"},
        "keep_succeeded_s": {"type": "number"},
        "keep_failed_s": {"type": "number"},
        "input_schema": {"type": "object"},
        "result_schema": {"type": "object"},
    }
)
_QUEUE = whole(
    {
        "name": TEXT,
        "paused": {"type": "boolean"},
        "ready": COUNT,
        "delayed": COUNT,
        "running": COUNT,
        "concurrency": maybe(COUNT),
        "oldest_ready_at": maybe(TIME),
    }
)
_BATCHED = whole({"id": TEXT, "kind": TEXT, "state": STATE, "links": {"type": "object"}})
_RECEIPT = whole(
    {
        "id": TEXT,
        "deleted_at": TIME,
        "removed": whole({"jobs": COUNT, "payloads": COUNT, "events": COUNT}),
    }
)

# What engine/submission.py asks of a job beyond the types of its members.
_LIMITS: dict[str, Schema] = {
    "queue": maybe(NAME),
    "priority": {"type": "integer", "minimum": min(PRIORITIES), "maximum": max(PRIORITIES)},
    "labels": {
        "type": "object",
        "maxProperties": LABELS_AT_MOST,
        "propertyNames": {"pattern": f"^{LABEL_KEY.pattern}$"},
        "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE_LENGTH},
    },
    "run_at": maybe(TIME),
    "deadline_s": maybe(
        {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DEADLINE_S},
    ),
    "max_attempts": maybe(
        {"type": "integer", "minimum": min(MAX_ATTEMPTS), "maximum": max(MAX_ATTEMPTS)}
    ),
}
_CLAIM = whole(
    {
        "job_id": TEXT,
        "fence": COUNT,
        "kind": TEXT,
        "queue": TEXT,
        "attempt": COUNT,
        "max_attempts": COUNT,
        "timeout_s": {"type": "number"},
        "deadline_at": maybe(TIME),
        "correlation_id": maybe(TEXT),
        "traceparent": maybe(TEXT),
        "links": {"type": "object", "additionalProperties": TEXT},
        "input": ANYTHING,
    }
)


def components() -> dict[str, Any]:
    """Return every named shape."""
    job_request = JobRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    job_request["properties"] |= _LIMITS
    return {
        "Job": _JOB,
        "JobRequest": job_request,
        "JobPage": whole({"jobs": listed(ref("Job")), "next_cursor": maybe(TEXT)}),
        "Batch": whole({"jobs": listed(_BATCHED)}),
        "Event": _EVENT,
        "EventPage": whole(
            {"events": listed(ref("Event")), "last": COUNT, "ended": {"type": "boolean"}}
        ),
        "Error": _ERROR,
        "Kind": _KIND,
        "KindPage": whole({"kinds": listed(ref("Kind"))}),
        "Problem": _PROBLEM,
        "Queue": _QUEUE,
        "QueueRequest": QueueRequest.model_json_schema(),
        "QueuePage": whole({"queues": listed(ref("Queue"))}),
        "Receipt": _RECEIPT,
        "Claims": whole({"lease_s": {"type": "number"}, "claims": listed(ref("Claim"))}),
        "Claim": _CLAIM,
        "ClaimRequest": ClaimRequest.model_json_schema(),
        "CompleteRequest": CompleteRequest.model_json_schema(),
        "FailRequest": FailRequest.model_json_schema(),
        "ProgressRequest": ProgressRequest.model_json_schema(),
        "Heartbeat": whole(
            {"lease_s": {"type": "number"}, "cancel_requested": {"type": "boolean"}}
        ),
        "Status": whole({"status": TEXT}),
    }
