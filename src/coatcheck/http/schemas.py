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
from coatcheck.engine.throughput import STATES
from coatcheck.http.access_request import KeyRequest, QuotasRequest, TenantRequest
from coatcheck.http.card_view import CARD
from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.fields import Fields
from coatcheck.http.job_request import JobRequest
from coatcheck.http.leases import (
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    ProgressRequest,
    StepError,
    StepRequest,
    StepsRequest,
)
from coatcheck.http.many import CancelRequest, DeleteRequest, ResumeRequest
from coatcheck.http.overview import MOST_NAMED
from coatcheck.http.queues import QueueRequest
from coatcheck.http.schedule_request import ScheduleRequest
from coatcheck.http.steering import ForkRequest
from coatcheck.http.uploads import SignedRequest
from coatcheck.model import artifact
from coatcheck.model.access import KEY, Quotas, TenantStatus
from coatcheck.model.event import EventType
from coatcheck.model.names import NAME_PATTERN, NAME_RULE
from coatcheck.model.schedule import LONGEST_MS, SHORTEST_MS, CatchUp, Overlap
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op, StepState
from coatcheck.model.upload import SHA256_PATTERN
from coatcheck.model.usage import Usage

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
ID: Schema = {
    "type": "string",
    "description": "A ULID, or the public id that a surface gave the job.",
}
ANYTHING: Schema = {}
FILE_NAME: Schema = {
    "type": "string",
    "pattern": f"^{artifact.NAME_PATTERN}$",
    "description": artifact.NAME_RULE,
}
KEY_ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{12}$"}
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
        "run_at": maybe(TIME),
        "started_at": maybe(TIME),
        "finished_at": maybe(TIME),
        "expires_at": maybe(TIME),
        "labels": {"type": "object", "additionalProperties": TEXT},
        "parent": maybe(TEXT),
        "forked_from": maybe(TEXT),
        "result": ANYTHING,
        "error": maybe(ref("Error")),
        "artifacts": listed(ref("Artifact")),
        "links": {"type": "object", "additionalProperties": TEXT},
        "position": {
            "description": "Its place in the queue, from 1, while it waits for its turn.",
            "anyOf": [COUNT, {"const": "1000+"}],
        },
        "explain": listed(whole({"code": TEXT, "message": TEXT})),
        "result_omitted": {
            "description": "It is too large to be shown here: its own address has it.",
            "const": True,
        },
    },
    optional=("position", "explain", "result_omitted"),
)
_ARTIFACT = whole(
    {
        "name": FILE_NAME,
        "content_type": TEXT,
        "size": COUNT,
        "sha256": {"type": "string", "pattern": SHA256_PATTERN},
        "created_at": TIME,
        "url": TEXT,
    }
)
_UPLOAD = whole(
    {
        "id": TEXT,
        "name": maybe(TEXT),
        "content_type": TEXT,
        "size": COUNT,
        "sha256": {"type": "string", "pattern": SHA256_PATTERN},
        "created_at": TIME,
        "expires_at": TIME,
        "links": {"type": "object", "additionalProperties": TEXT},
    }
)
_STEP = whole(
    {
        "seq": COUNT,
        "op": {"type": "string", "enum": list(Op)},
        "name": TEXT,
        "key": maybe(TEXT),
        "occurrence": COUNT,
        "state": {"type": "string", "enum": list(StepState)},
        "attempts": COUNT,
        "started_at": TIME,
        "finished_at": maybe(TIME),
        "wake_at": TIME,
        "error": ref("Error"),
        "result": ANYTHING,
        "result_omitted": {
            "type": "boolean",
            "description": "Its result is too large to be shown here: see `getStepResult`.",
        },
    },
    optional=("wake_at", "error", "result", "result_omitted"),
)
_EVENT = whole(
    {
        "seq": COUNT,
        "type": {"type": "string", "enum": list(EventType)},
        "at": TIME,
        "data": {"description": "An object; of an `output` what the handler gave out."},
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
        "erased": {
            "description": "Whether its bytes are gone from the disk; else the sweep goes on.",
            "type": "boolean",
        },
        "removed": whole(
            dict.fromkeys(
                (
                    *("jobs", "payloads", "events", "steps", "messages"),
                    *("artifacts", "uploads", "blobs", "deliveries"),
                ),
                COUNT,
            )
        ),
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
    "webhook": maybe(ref("JobWebhook")),
}
_OF_JOBS_ALONE = ("run_at", "webhook")
# The same for schedules, and what model/schedule.py asks.
_SCHEDULE_LIMITS: dict[str, Schema] = {
    **{name: of for name, of in _LIMITS.items() if name not in _OF_JOBS_ALONE},
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
_CLAIM = whole(
    {
        "job_id": TEXT,
        "fence": COUNT,
        "tenant": NAME,
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

_CREATED: dict[str, Schema] = {"created_after": maybe(TIME), "created_before": maybe(TIME)}
_SERVER = whole(
    {
        "version": TEXT,
        "now": TIME,
        "needs_key": {"type": "boolean"},
        "surfaces": listed(TEXT),
        "caller": whole(
            {
                "tenant": NAME,
                "key_id": maybe(KEY_ID),
                "operator": {"type": "boolean"},
                "scopes": listed(TEXT),
            }
        ),
    }
)
_WORKER = whole(
    {
        "id": TEXT,
        "host": TEXT,
        "pid": COUNT,
        "kinds": listed(TEXT),
        "slots": COUNT,
        "started_at": TIME,
        "lost": {"type": "boolean"},
        "running": COUNT,
        "jobs": {
            **listed(whole({"id": TEXT, "tenant": NAME, "kind": TEXT, "started_at": maybe(TIME)})),
            "description": f"What it runs, the first {MOST_NAMED}.",
        },
    }
)
_ENDED = whole({"minute": TIME, "queue": TEXT, "kind": TEXT, **dict.fromkeys(STATES, COUNT)})


def _described(model: type[Fields], **limits: Schema) -> Schema:
    """Return the schema of a body, with what pydantic cannot tell of its members."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)  # components of their own
    schema["properties"] |= limits
    return schema


_KEY = {
    "id": KEY_ID,
    "tenant": NAME,
    "scopes": listed(TEXT),
    "note": TEXT,
    "created_at": TIME,
    "expires_at": maybe(TIME),
    "revoked_at": maybe(TIME),
}
_SECRET: Schema = {"type": "string", "pattern": f"^{KEY.pattern}$", "description": "Shown once."}
_TENANT = whole(
    {
        "name": NAME,
        "status": {"enum": [str(status) for status in TenantStatus]},
        "quotas": whole({name: maybe(COUNT) for name in Quotas._fields}),
        "created_at": TIME,
        "updated_at": TIME,
    }
)
_USAGE = whole(
    {"tenant": NAME, "kind": NAME, "hour": TIME, **dict.fromkeys(Usage._fields[3:], COUNT)}
)


def _access() -> dict[str, Any]:
    tenant_request = _described(TenantRequest)
    tenant_request["properties"]["quotas"] = maybe(ref("QuotasRequest"))
    tenant_request["properties"]["status"] = maybe(_TENANT["properties"]["status"])
    tenant_request.pop("$defs", None)
    return {
        "Key": whole(_KEY),
        "NewKey": whole({**_KEY, "key": _SECRET}),
        "KeyPage": whole({"keys": listed(ref("Key")), "next_cursor": maybe(TEXT)}),
        "KeyRequest": _described(KeyRequest, expires_at=maybe(TIME)),
        "Tenant": _TENANT,
        "TenantPage": whole({"tenants": listed(ref("Tenant")), "next_cursor": maybe(TEXT)}),
        "TenantRequest": tenant_request,
        "QuotasRequest": _described(QuotasRequest),
        "UsagePage": whole({"usage": listed(_USAGE)}),
    }


def components() -> dict[str, Any]:
    """Return every named shape."""
    schedule_request = ScheduleRequest.model_json_schema()
    schedule_request["properties"] |= _SCHEDULE_LIMITS
    return {
        "Job": _JOB,
        "JobRequest": _described(JobRequest, **_LIMITS),
        "JobPage": whole({"jobs": listed(ref("Job")), "next_cursor": maybe(TEXT)}),
        "Artifact": _ARTIFACT,
        "ArtifactPage": whole({"artifacts": listed(ref("Artifact"))}),
        "Card": CARD,
        "Batch": whole({"jobs": listed(_BATCHED)}),
        "Step": _STEP,
        "StepPage": whole({"steps": listed(ref("Step"))}),
        "StepRequest": _described(StepRequest, started_at=maybe(TIME)),
        "StepError": _described(StepError),
        "StepsRequest": _described(StepsRequest),
        "ForkRequest": _described(ForkRequest),
        "ResumeRequest": _described(ResumeRequest, **_CREATED),
        "CancelRequest": _described(CancelRequest, **_CREATED),
        "DeleteRequest": _described(DeleteRequest, **_CREATED),
        "DoneToJobs": whole(
            {"jobs": COUNT, "dry_run": {"type": "boolean"}, "next_cursor": maybe(TEXT)}
        ),
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
        "Schedule": _SCHEDULE,
        "SchedulePage": whole({"schedules": listed(ref("Schedule")), "next_cursor": maybe(TEXT)}),
        "ScheduleRequest": schedule_request,
        "Ticks": whole({"ticks": listed(TIME)}),
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
        "Server": _SERVER,
        "WorkerPage": whole({"workers": listed(_WORKER)}),
        "Throughput": whole({"ended": listed(_ENDED)}),
        "Upload": _UPLOAD,
        "SignedUpload": whole(
            {
                "id": TEXT,
                "method": {"const": "PUT"},
                "url": TEXT,
                "headers": {"type": "object", "additionalProperties": TEXT},
                "expires_at": TIME,
                "links": {"type": "object", "additionalProperties": TEXT},
            }
        ),
        "SignedRequest": _described(SignedRequest),
        **_access(),
    }
