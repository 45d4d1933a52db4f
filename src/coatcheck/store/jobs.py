"""The jobs part of a store.

- Any process may submit, read, cancel and delete. A submit that raised StoreUnavailable can be
  repeated with the same id.
- A job that ran before it was written is submitted in its final state (`submit_finished`).
- A worker writes to a job only through its lease: see `store/workers.py`.
- A handler that waits settles its job with the outcome `Waiting`. The job is queued again when its
  time has come (a claim does that), or when every event of one of its groups has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.workers import Report

BATCH_LIMIT = 10_000
NO_COPIES: Mapping[str, str] = MappingProxyType({})
# The worker of a job that was submitted as finished. No reader ever sees it: the row is written in
# its terminal state.
NO_WORKER = ""


class Idempotency(NamedTuple):
    """An idempotency key, and the fingerprint of the request that used it."""

    key: str
    fingerprint: str
    expires_at: int


class ExistingSubmission(NamedTuple):
    """An earlier submission under the same idempotency key: `jobs` jobs with consecutive ids."""

    first_id: str
    jobs: int
    fingerprint: str


class FinishedJob(NamedTuple):
    """The outcome of a job that ran without a claim.

    `records` are documents that refer to the job. They are written in its transaction and replace
    existing ones.
    """

    began_at: int
    outcome: Succeeded | GaveUp
    report: Report | None = None
    records: tuple[Record, ...] = ()


class DeletedJob(NamedTuple):
    """The number of rows that were deleted with a job."""

    job_id: str
    payloads: int
    events: int
    steps: int = 0
    artifacts: int = 0
    uploads: int = 0
    blobs: int = 0  # of payloads and files; their bytes are removed next
    messages: int = 0
    deliveries: int = 0


class JobFilter(NamedTuple):
    """A filter and a page of jobs, newest first. `before` is the last id of the previous page."""

    tenant: str
    state: State | None = None
    kind: str | None = None
    queue: str | None = None
    created_after: int | None = None
    before: str | None = None
    limit: int = 50
    labels: tuple[tuple[str, str], ...] = ()  # all must match
    parent: str | None = None  # the id of the job that spawned them


class JobStore(Protocol):
    """The verbs on jobs."""

    async def submit(
        self,
        job: JobInsert,
        now: int,
        idempotency: Idempotency | None = None,
        epoch: int | None = None,
    ) -> ExistingSubmission | None:
        """Write a job. A job with the same id is left unchanged.

        The job takes over the uploads that it names. Raises Conflict if the public id is taken,
        AccessChanged if `epoch` is not the current access epoch, and UploadGone if an upload has
        expired or belongs to another job.

        An idempotency key is written together with the job. If an unexpired key exists, nothing is
        written and the earlier submission is returned. Of any number of concurrent submits under
        one key exactly one happens.
        """
        ...

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Write a job in its terminal state, in one transaction.

        The row looks as if the job had been submitted at `job.created_at`, claimed at
        `finished.began_at` and settled `now`. No claim ever sees it, and WORK is not signalled.
        Ids, the epoch and uploads are handled as in `submit`.
        """
        ...

    async def submit_batch(
        self, jobs: Sequence[JobInsert], now: int, idempotency: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Write up to 10,000 jobs, all or none, without blocking other writers.

        With an idempotency key, the ids must be consecutive.
        """
        ...

    async def find_submission(self, tenant: str, key: str, now: int) -> ExistingSubmission | None:
        """Find the submission under an idempotency key that has not expired."""
        ...

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id. Raises NotFound or Gone."""
        ...

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read the existing jobs among these (tenant, id) pairs, in any order."""
        ...

    async def list_jobs(self, page: JobFilter) -> list[Job]:
        """List jobs, newest first, without their results."""
        ...

    async def get_input(self, tenant: str, job_id: str) -> str:
        """Read a job's input. Raises NotFound, Gone or InputGone."""
        ...

    async def list_events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """List a job's events in order, from the one after this number."""
        ...

    async def list_steps(self, tenant: str, job_id: str) -> list[Step]:
        """List a job's steps in the order in which its handler reached them."""
        ...

    async def list_sent_events(self, tenant: str, job_id: str) -> list[SentEvent]:
        """List the events that were sent to a job, in order."""
        ...

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Request the cancellation of a job and return the job. Raises NotFound or Gone.

        If the job becomes cancelled, so do its children: some at once, the rest by the sweep.
        """
        ...

    async def send_event(
        self,
        tenant: str,
        job_id: str,
        name: str,
        data: str,
        now: int,
        key: str | None = None,
        most: int = MOST_MESSAGES,
    ) -> Job:
        """Send an event to an unfinished job and return the job.

        The event is stored until the job waits for it. A repeated key sends nothing; with a
        different event it raises KeyReused. Raises Conflict if the job has finished or has `most`
        events already, NotFound and Gone.
        """
        ...

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a failed or cancelled job again with its steps and a new set of attempts.

        Any other job is left unchanged. A deadline that has passed is removed. Returns the job.
        Raises NotFound, Gone or InputGone.
        """
        ...

    async def fork(
        self,
        source: str,
        before: int,
        job: JobInsert,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Write a new job with the completed steps of `source` that have a smaller number than
        `before`, and the events that those steps consumed.

        A job with the same id is left unchanged. `copies` maps blob references of the source to
        those of the fork. Raises Conflict if one is missing.
        """
        ...

    async def delete(self, tenant: str, job_id: str, now: int) -> DeletedJob:
        """Delete a finished job with everything that belongs to it, and leave a tombstone.

        Raises Conflict if the job has not finished, NotFound and Gone.
        """
        ...
