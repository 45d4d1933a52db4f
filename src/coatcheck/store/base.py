"""The Store: every verb the engine knows, and what each promises.

Who may do what:

- Anyone may `submit`, read, `cancel`, `sweep`. A submit that returned is durable; one that raised
  StoreUnavailable may or may not have happened, and can be repeated with the same id.
- Whoever has run a job before it was written submits it as it ended (`submit_finished`).
- A worker writes to a job only through the lease it got: `coatcheck.store.workers` says how.
- A handler that waits gives its job up with the outcome `Waiting`. The job is queued again when
  its time has come (a claim sees to that), or all of one of the groups it waits for is there.

Every transition writes the job, its event and whatever else belongs to it in one transaction.
All times are the caller's (milliseconds since the epoch): a store has no clock of its own.
What a transition does is decided in `coatcheck.model.transition`, never in a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.access import AccessStore
from coatcheck.store.audit import AuditStore
from coatcheck.store.files import FileStore
from coatcheck.store.migrations import Migration
from coatcheck.store.queues import QueueStatus, QueueStore
from coatcheck.store.records import RecordStore
from coatcheck.store.rekey import RekeyStore
from coatcheck.store.schedules import ScheduleStore
from coatcheck.store.webhooks import WebhookStore
from coatcheck.store.workers import (
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    HeldJob,
    LimitUsage,
    RegisteredWorker,
    Report,
    Settlement,
    WorkerStore,
)

# Who speaks to a store finds its words here, whichever part of it they come from.
__all__ = [
    "BATCH_LIMIT",
    "NO_COPIES",
    "NO_LIMITS",
    "NO_VERSIONS",
    "NO_WORKER",
    "ClaimResult",
    "DeletedJob",
    "ExistingSubmission",
    "FinishedJob",
    "HeldJob",
    "Idempotency",
    "JobFilter",
    "LimitUsage",
    "QueueStatus",
    "RegisteredWorker",
    "Report",
    "Settlement",
    "Signal",
    "Store",
    "SweepResult",
    "Topic",
]

BATCH_LIMIT = 10_000
NO_COPIES: Mapping[str, str] = MappingProxyType({})
# Who has run a job that nobody had to claim. It is no worker, and nobody ever reads it: the job is
# not there before it has ended.
NO_WORKER = ""


class Topic(StrEnum):
    """What somebody can wait to be woken for."""

    WORK = "work"  # a job may have become claimable, or due at a new time
    CANCELS = "cancels"  # a running job was asked to stop
    CHANGES = "changes"  # some job is in another state, or gone
    REPORTS = "reports"  # some job has said something of itself, and runs on
    SCHEDULES = "schedules"  # a schedule was made or changed
    WEBHOOKS = "webhooks"  # there may be something to deliver


class Signal(Protocol):
    """A wake-up for one waiter: several that come at once are one, none is lost, and one may come
    without cause.
    """

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True when woken since the last wait, False when the time ran out."""
        ...

    def close(self) -> None:
        """Stop being woken."""
        ...


class Idempotency(NamedTuple):
    """A key under which a request happens once, and what tells that request from another."""

    key: str
    fingerprint: str
    expires_at: int


class ExistingSubmission(NamedTuple):
    """What was submitted under a key before: so many jobs, with consecutive ids."""

    first_id: str
    jobs: int
    fingerprint: str


class FinishedJob(NamedTuple):
    """How a job ended that nobody had to claim: since when it ran, what came of it, and what it had
    to say of itself. Documents that lead to it are written with it, over those that were there.
    """

    began_at: int
    outcome: Succeeded | GaveUp
    report: Report | None = None
    records: tuple[Record, ...] = ()


class DeletedJob(NamedTuple):
    """What was removed with a job."""

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
    """Which jobs to list: newest first, `before` is the id of the last one already seen."""

    tenant: str
    state: State | None = None
    kind: str | None = None
    queue: str | None = None
    created_after: int | None = None
    before: str | None = None
    limit: int = 50
    labels: tuple[tuple[str, str], ...] = ()  # all of them
    parent: str | None = None  # the id of the job that spawned them


class SweepResult(NamedTuple):
    """What one bounded sweep did; call again while `more` is true."""

    expired: int = 0
    deleted: int = 0
    batches: int = 0
    more: bool = False


class Store(
    WorkerStore,
    FileStore,
    QueueStore,
    RecordStore,
    ScheduleStore,
    WebhookStore,
    AccessStore,
    AuditStore,
    RekeyStore,
    Protocol,
):
    """Durable state, as semantic verbs. Here are those on jobs; its parts stand in the modules
    beside this one, each with the verbs on one thing.
    """

    async def open(self) -> None:
        """Connect; apply the migrations that are missing, under a lock."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply the migrations that are missing, and return them; the store need not be open."""
        ...

    async def close(self) -> None:
        """Finish the writes under way and let go of everything."""
        ...

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the store can be written to; counted under `pings`."""
        ...

    # --- handing work in and reading it

    async def submit(
        self, job: JobInsert, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> ExistingSubmission | None:
        """Make a job durable. An id that is there already is left as it is; a public id that is
        taken raises Conflict, an epoch that is not the present one AccessChanged. The uploads it
        names are its own from then on; where one is another job's by now, or its time has passed,
        that raises UploadGone.

        With `once` the key is written together with the job. Where another job holds the key,
        nothing is written and that one is returned: of any number of submits under one key,
        whenever and wherever they come, one happens, until the key expires.
        """
        ...

    async def submit_finished(
        self, job: JobInsert, ended: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Make a job durable that has ended already, in one transaction. It is from then on as if
        it had been submitted at `job.created_at`, claimed at `ended.began_at` and settled `now`;
        but no claim ever sees it, and WORK is not signalled for it. Ids, the epoch and uploads are
        as for `submit`.
        """
        ...

    async def submit_batch(
        self, jobs: Sequence[JobInsert], now: int, once: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Make up to 10,000 jobs durable, all or none, without holding up other writers.

        With `once` as above; the ids must then be consecutive.
        """
        ...

    async def earlier(self, tenant: str, key: str, now: int) -> ExistingSubmission | None:
        """Read what was submitted under an idempotency key that has not expired."""
        ...

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id, or by the public id its surface gave it; raises NotFound, Gone."""
        ...

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read those of many jobs, named by (tenant, id), that exist: one read for all watchers."""
        ...

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first, without their results."""
        ...

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """Read a job's log in order, from the entry after the given number."""
        ...

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps, in the order in which its handler came to them."""
        ...

    async def messages(self, tenant: str, job_id: str) -> list[SentEvent]:
        """Read what was sent to a job from outside, in order."""
        ...

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Ask for a job to be cancelled and return how it stands then; raises NotFound, Gone. Jobs
        that one that ends as cancelled has spawned are cancelled, too: some of them at once, where
        there are many the others by the sweep.
        """
        ...

    async def send(
        self,
        tenant: str,
        job_id: str,
        name: str,
        data: str,
        now: int,
        key: str | None = None,
        most: int = MOST_MESSAGES,
    ) -> Job:
        """Send an event to a job that has not ended, and return how the job stands then. It is kept
        until the job waits for it. Raises Conflict for one that has ended or has got `most` of them
        already, NotFound, Gone.

        Under the same key it is sent to the job once, whenever it is repeated; with another event
        that raises KeyReused.
        """
        ...

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a job again that failed or was cancelled, with its steps and all its attempts, and
        return how it stands then; any other is left as it is. A deadline that has passed is
        dropped. Raises NotFound, Gone, InputGone.
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
        """Make a new job durable, with those steps of another of its tenant that have a smaller
        number and are done, and the events they took. The same id again is left as it is. `copies`
        are references that the fork has in place of the other's; raises Conflict if one is missing.
        """
        ...

    async def input_of(self, tenant: str, job_id: str) -> str:
        """Read the input a job was submitted with; raises NotFound, Gone, InputGone."""
        ...

    async def delete(self, tenant: str, job_id: str, now: int) -> DeletedJob:
        """Remove a job that has ended and all that belongs to it; only a tombstone stays. Raises
        Conflict for one that has not ended, NotFound, Gone.
        """
        ...

    # --- keeping house

    async def sweep(self, now: int) -> SweepResult:
        """Fail jobs past their deadline, those that run where it is long past (their lease is then
        stale), drop inputs that are to be kept no longer, delete what retention has passed over
        unless its parent has not ended or a webhook is still to be delivered, finish batches that
        a crash left half-written and cancels of many children: a bounded amount, safe to run
        anywhere and at any time.
        """
        ...

    async def erase(self) -> bool:
        """See that what was removed cannot be read on the disk either, as far as the store promises
        that; False when it could not be done now.
        """
        ...

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to counts kept beside the jobs, all in one write."""
        ...

    async def counters(self) -> dict[str, int]:
        """Read the counts kept beside the jobs, such as `stale_writes`."""
        ...

    # --- being woken

    def subscribe(self, topic: Topic) -> Signal:
        """Be woken, on the running loop, by what any process does to this store."""
        ...
