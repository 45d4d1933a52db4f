"""Jobs: as they are submitted, read, and held by a worker.

Times are milliseconds since the epoch. Inputs, results and error details are JSON texts; the kind
interprets them, one layer up. A large input or result is a reference to a blob (payload.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.model.artifact import Artifact
from coatcheck.model.state import Reason, State
from coatcheck.model.upload import StoredUpload
from coatcheck.model.webhook import Callback

DEFAULT_TENANT = "default"
DEFAULT_QUEUE = "default"
API_SURFACE = "api"
# The owner within the tenant, for jobs that only one caller may read (http/auth/readers.py).
OWNER_LABEL = "relay.owner"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt or a job failed, for the person who submitted it."""

    code: str
    message: str
    detail: str | None = None
    retryable: bool = False


class Terms(NamedTuple):
    """The terms of a job, fixed when it is submitted; no transition changes them."""

    max_attempts: int = 3
    on_lost: str = "requeue"  # or "resume" (the same, with checkpoints) or "fail"
    timeout_ms: int = 3_600_000
    keep_succeeded_ms: int = 86_400_000
    keep_failed_ms: int = 604_800_000
    deadline_at: int | None = None  # a job that has not finished by then fails
    parent: str | None = None  # the job that spawned it


class JobInsert(NamedTuple):
    """A job to insert. Its id is chosen before the write, so that its outcome can be looked up.

    `public_id` is the id that its surface shows, None if that is `id`. Jobs with the same
    `limit_key` share a limit.
    """

    id: str
    kind: str
    input: str
    created_at: int
    run_at: int
    tenant: str = DEFAULT_TENANT
    surface: str = API_SURFACE
    public_id: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    terms: Terms = Terms()
    labels: str = "{}"
    limit_key: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    forked_from: str | None = None
    # None: the input lives as long as its job; 0: until the job finishes; else until that time.
    input_until: int | None = None
    uploads: tuple[StoredUpload, ...] = ()  # that it takes over
    webhook: Callback | None = None  # an endpoint of its own


class Lease(NamedTuple):
    """A worker's right to write to a job: every claim raises the fence; a stale one is rejected."""

    tenant: str
    job_id: str
    fence: int


class Claim(NamedTuple):
    """A claimed job, with everything that a worker needs to run it."""

    lease: Lease
    kind: str
    surface: str
    queue: str
    input: str
    attempt: int
    terms: Terms
    run_at: int  # when it was due
    correlation_id: str | None
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a job reports."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the store returns it."""

    tenant: str
    id: str
    surface: str
    public_id: str
    kind: str
    queue: str
    state: State
    phase: str | None
    reason: Reason | None
    attempt: int
    priority: int
    fence: int
    worker: str | None
    terms: Terms
    created_at: int
    run_at: int
    started_at: int | None
    finished_at: int | None
    expires_at: int | None
    cancel_requested: bool
    last_event: int
    progress: Progress | None
    error: Failure | None
    result: str | None
    limit_key: str | None
    correlation_id: str | None
    traceparent: str | None
    forked_from: str | None = None
    version: str | None = None  # of its kind, once it has started under one
    labels: Mapping[str, str] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()  # by name
