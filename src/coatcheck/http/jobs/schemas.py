"""The shapes of jobs and what belongs to them: steps, events, files."""

from __future__ import annotations

from coatcheck.engine.submit.submission import (
    LABEL_KEY,
    LABEL_VALUE_LENGTH,
    LABELS_AT_MOST,
    LONGEST_DEADLINE_S,
    MAX_ATTEMPTS,
    PRIORITIES,
)
from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.files.uploads import SignedRequest
from coatcheck.http.jobs.bulk import CancelRequest, DeleteRequest, ResumeRequest
from coatcheck.http.jobs.card_view import CARD
from coatcheck.http.jobs.models import JobRequest
from coatcheck.http.jobs.steps import ForkRequest
from coatcheck.http.json_schema import (
    ANYTHING,
    COUNT,
    FILE_NAME,
    NAME,
    STATE,
    TEXT,
    TIME,
    WHOLE,
    described,
    listed,
    maybe,
    whole,
)
from coatcheck.model.event import EventType
from coatcheck.model.state import Reason
from coatcheck.model.step import Op, StepState
from coatcheck.model.upload import SHA256_PATTERN

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

# What engine/submit/submission.py asks of a job beyond the types of its members.
JOB_LIMITS: dict[str, Schema] = {
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
_CREATED: dict[str, Schema] = {"created_after": maybe(TIME), "created_before": maybe(TIME)}


def job_components() -> dict[str, Schema]:
    """Return every named shape."""
    return {
        "Job": _JOB,
        "JobRequest": described(JobRequest, **JOB_LIMITS),
        "JobPage": whole({"jobs": listed(ref("Job")), "next_cursor": maybe(TEXT)}),
        "Artifact": _ARTIFACT,
        "ArtifactPage": whole({"artifacts": listed(ref("Artifact"))}),
        "Card": CARD,
        "Batch": whole({"jobs": listed(_BATCHED)}),
        "Step": _STEP,
        "StepPage": whole({"steps": listed(ref("Step"))}),
        "ForkRequest": described(ForkRequest),
        "ResumeRequest": described(ResumeRequest, **_CREATED),
        "CancelRequest": described(CancelRequest, **_CREATED),
        "DeleteRequest": described(DeleteRequest, **_CREATED),
        "DoneToJobs": whole(
            {"jobs": COUNT, "dry_run": {"type": "boolean"}, "next_cursor": maybe(TEXT)}
        ),
        "Event": _EVENT,
        "EventPage": whole(
            {"events": listed(ref("Event")), "last": COUNT, "ended": {"type": "boolean"}}
        ),
        "Error": _ERROR,
        "Receipt": _RECEIPT,
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
        "SignedRequest": described(SignedRequest),
    }
