"""The server itself: kinds, queues, workers, throughput, health, and errors."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from coatcheck.documents.fields import Count, JSONObject, KeyId, Name, Timestamp
from coatcheck.documents.schema import Document


class ProblemEntry(Document):
    """A problem at one place of a request body."""

    pointer: str
    detail: str


class ProblemDocument(TypedDict):
    """An error (RFC 9457). `type` is stable; the texts may change."""

    type: Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]
    title: str
    status: int
    detail: str
    errors: NotRequired[list[ProblemEntry]]
    correlation_id: NotRequired[str]


class KindDocument(Document):
    """A type of job, with the schemas of its input and result."""

    name: str
    queue: str
    isolation: str
    concurrency: Count | None
    concurrency_by_key: bool
    rate: str | None
    version: str | None
    internal: bool
    max_attempts: Count
    on_lost: str
    timeout_s: float
    keep_succeeded_s: float
    keep_failed_s: float
    input_schema: JSONObject
    result_schema: JSONObject


class KindPage(Document):
    """Every declared kind."""

    kinds: list[KindDocument]


class QueueDocument(Document):
    """A queue, its depth and its limit."""

    name: str
    paused: bool
    ready: Count
    delayed: Count
    running: Count
    concurrency: Count | None
    oldest_ready_at: Timestamp | None


class QueuePage(Document):
    """A page of queues."""

    queues: list[QueueDocument]
    next_cursor: str | None


class StatusDocument(Document):
    """The health of the process. A surface may add that it is degraded."""

    status: str
    degraded: NotRequired[bool]


class CallerDocument(Document):
    """The caller, as the server authenticated it."""

    tenant: Name
    key_id: KeyId | None
    operator: bool
    scopes: list[str]


class ServerDocument(Document):
    """The server and the caller."""

    version: str
    now: Timestamp
    needs_key: bool
    surfaces: list[str]
    caller: CallerDocument


class RunningJob(Document):
    """A job that a worker runs."""

    id: str
    tenant: Name
    kind: str
    started_at: Timestamp | None


class WorkerDocument(Document):
    """A registered worker."""

    id: str
    host: str
    pid: Count
    kinds: list[str]
    slots: Count
    started_at: Timestamp
    lost: bool
    running: Count
    jobs: Annotated[list[RunningJob], Field(description="The first 20 jobs that it runs.")]


class WorkerPage(Document):
    """Every registered worker."""

    workers: list[WorkerDocument]


class MinuteCount(Document):
    """The jobs of one queue and kind that finished within one minute."""

    minute: Timestamp
    queue: str
    kind: str
    succeeded: Count
    failed: Count
    cancelled: Count


class ThroughputDocument(Document):
    """The jobs that finished within the last hour, by minute."""

    ended: list[MinuteCount]
