"""Jobs and their parts: steps, events, cards, batches, artifacts and uploads."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from coatcheck.documents.fields import (
    Count,
    FileName,
    JSONObject,
    Links,
    Sha256,
    StateName,
    Timestamp,
)
from coatcheck.documents.schema import Document
from coatcheck.model.event import EventType
from coatcheck.model.state import Reason
from coatcheck.model.step import Op, StepState

_NullableText = Annotated[str | None, WithJsonSchema({"type": ["string", "null"]})]
_NullableCount = Annotated[int | None, WithJsonSchema({"type": ["integer", "null"], "minimum": 0})]


class ErrorDocument(Document):
    """Why a job or a step failed."""

    code: str
    message: str
    detail: str | None
    retryable: bool


class ProgressDocument(Document):
    """A job's own report of its progress."""

    done: float
    total: float | None
    message: str | None


class ArtifactDocument(Document):
    """A file that a job created."""

    name: FileName
    content_type: str
    size: Count
    sha256: Sha256
    created_at: Timestamp
    url: str


class ArtifactPage(Document):
    """The artifacts of a job."""

    artifacts: list[ArtifactDocument]


class JobHead(Document):
    """The members of a job before its result."""

    id: str
    kind: str
    surface: str
    queue: str
    state: StateName
    phase: str | None
    reason: Annotated[str, WithJsonSchema({"type": "string", "enum": list(Reason)})] | None
    attempt: Count
    max_attempts: Count
    priority: int
    progress: ProgressDocument | None
    created_at: Timestamp
    run_at: Timestamp | None
    started_at: Timestamp | None
    finished_at: Timestamp | None
    expires_at: Timestamp | None
    labels: dict[str, str]
    parent: str | None
    forked_from: str | None


class ReasonDocument(Document):
    """A reason why a job does not run yet."""

    code: str
    message: str


class JobExtras(Document):
    """The members of a job that only some responses have."""

    position: NotRequired[
        Annotated[
            int | str,
            WithJsonSchema(
                {
                    "description": "The position in the queue, from 1, while the job is queued.",
                    "anyOf": [{"type": "integer", "minimum": 0}, {"const": "1000+"}],
                }
            ),
        ]
    ]
    explain: NotRequired[list[ReasonDocument]]


class JobTail(JobExtras):
    """The members of a job after its result."""

    error: ErrorDocument | None
    artifacts: list[ArtifactDocument]
    links: Links
    result_omitted: NotRequired[
        Annotated[
            bool,
            WithJsonSchema(
                {
                    "description": "The result is too large for this document: see `getResult`.",
                    "const": True,
                }
            ),
        ]
    ]


class JobDocument(JobHead, JobTail):
    """A job."""

    result: Any


class JobPage(Document):
    """A page of jobs."""

    jobs: list[JobDocument]
    next_cursor: str | None


class BatchedJob(Document):
    """A job of a batch."""

    id: str
    kind: str
    state: StateName
    links: JSONObject


class BatchDocument(Document):
    """The jobs of a batch, in the order of the request."""

    jobs: list[BatchedJob]


class StepDocument(Document):
    """A durable step of a job."""

    seq: Count
    op: Annotated[str, WithJsonSchema({"type": "string", "enum": list(Op)})]
    name: str
    key: str | None
    occurrence: Count
    state: Annotated[str, WithJsonSchema({"type": "string", "enum": list(StepState)})]
    attempts: Count
    started_at: Timestamp
    finished_at: Timestamp | None
    wake_at: NotRequired[Timestamp]
    error: NotRequired[ErrorDocument]
    result: NotRequired[Any]
    result_omitted: NotRequired[
        Annotated[
            bool,
            Field(description="The result is too large for this document: see `getStepResult`."),
        ]
    ]


class StepPage(Document):
    """The steps of a job, in order."""

    steps: list[StepDocument]


class EventDocument(Document):
    """An entry of a job's event log."""

    seq: Count
    type: Annotated[str, WithJsonSchema({"type": "string", "enum": list(EventType)})]
    at: Timestamp
    data: Annotated[
        Any,
        WithJsonSchema({"description": "An object; for `output`, the value that was emitted."}),
    ]


class EventPage(Document):
    """A page of a job's event log; `ended` means that the job is finished."""

    events: list[EventDocument]
    last: Count
    ended: bool


class StepLineState(StrEnum):
    """The state of all steps of one name."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"  # in progress when the job was cancelled
    SKIPPED = "skipped"  # the job succeeded without it


class CardStep(Document):
    """The steps of one name, summed up."""

    name: str
    state: Annotated[str, WithJsonSchema({"type": "string", "enum": list(StepLineState)})]
    done: Count
    total: _NullableCount
    ms: Count
    attempts: Count


_Action = Annotated[
    str | None,
    WithJsonSchema(
        {
            "type": ["string", "null"],
            "description": "The path to POST to; null if the job's state or the key forbids it.",
        }
    ),
]


class CardActions(Document):
    """The actions that are possible now, as paths to POST to."""

    cancel: _Action
    resume: _Action
    fork: _Action


class CardDocument(Document):
    """A job as a progress card."""

    title: str
    state: StateName
    percent: Annotated[
        int | None, WithJsonSchema({"type": ["integer", "null"], "minimum": 0, "maximum": 100})
    ]
    steps: list[CardStep]
    message: _NullableText
    eta_s: _NullableCount
    actions: CardActions


class BulkResultDocument(Document):
    """The number of jobs that a bulk operation changed, or would change."""

    jobs: Count
    dry_run: bool
    next_cursor: str | None


class RemovedRows(Document):
    """The number of rows and blobs that a deletion removed."""

    jobs: Count
    payloads: Count
    events: Count
    steps: Count
    artifacts: Count
    deliveries: Count
    uploads: Count
    blobs: Count
    messages: Count


class ReceiptDocument(Document):
    """The receipt of a deleted job."""

    id: str
    deleted_at: Timestamp
    erased: Annotated[
        bool,
        Field(description="Whether the bytes are erased from disk; if not, the sweep erases them."),
    ]
    removed: RemovedRows


class UploadDocument(Document):
    """A file that was uploaded before its job."""

    id: str
    name: str | None
    content_type: str
    size: Count
    sha256: Sha256
    created_at: Timestamp
    expires_at: Timestamp
    links: Links


class SignedUploadDocument(Document):
    """A signed URL of the blob store to upload a file to."""

    id: str
    method: Annotated[Literal["PUT"], WithJsonSchema({"const": "PUT"})]
    url: str
    headers: dict[str, str]
    expires_at: Timestamp
    links: Links


class StreamedEvent(TypedDict, total=False):
    """A server-sent event; its data is the JSON of an Event, or of the Job for reset and end."""

    id: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9]+$"})]
    event: Annotated[str, WithJsonSchema({"enum": [*EventType, "reset", "end"]})]
    data: str
    retry: int


class StreamedCard(TypedDict, total=False):
    """A server-sent event; its data is the JSON of a Card."""

    id: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9]+$"})]
    event: Annotated[str, WithJsonSchema({"enum": ["card", "end"]})]
    data: str
    retry: int
