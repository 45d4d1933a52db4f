"""The Store: every verb the engine knows, and what each promises.

Who may do what:

- Anyone may `submit`, read, `cancel`, `sweep`. A submit that returned is durable; one that raised
  StoreUnavailable may or may not have happened, and can be repeated with the same id.
- A worker registers, claims, and from then on writes to a job only through the `Lease` it got.
  Each of its writes is compare-and-set on (job, fence): a lease that is no longer the newest
  changes nothing, is answered with False and counted under `stale_writes`.
- Whoever finds a worker lost removes it, naming the heartbeat count it judged by: if the worker
  beat once more in between, nothing happens.

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

from coatcheck.model.artifact import Artifact, SmallFile
from coatcheck.model.event import Event, NewEvent
from coatcheck.model.job import Claim, Job, Lease, NewJob, Progress
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Outcome
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.model.step import MOST_MESSAGES, Message, Step
from coatcheck.model.upload import StoredUpload
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.access import AccessStore
from coatcheck.store.migrations import Migration
from coatcheck.store.resealing import ResealingStore
from coatcheck.store.schedules import ScheduleStore
from coatcheck.store.webhooks import WebhookStore

BATCH_LIMIT = 10_000
NO_LIMITS: Mapping[str, Limit] = MappingProxyType({})
NO_COPIES: Mapping[str, str] = MappingProxyType({})
NO_VERSIONS: Mapping[str, str] = MappingProxyType({})


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


class Claimed(NamedTuple):
    """What a claim brought, and when the next delayed job is due (None: there is none)."""

    claims: list[Claim]
    next_due: int | None


class Report(NamedTuple):
    """What a running job says of itself; what is None stays as it is. A new progress or phase is
    an entry of the log too, after the report's own, and so is each step. A phase that was over
    before it could be written is an entry of its own, of type PROGRESS: `{"phase": "loading"}`.

    A step replaces what is there under its number; written twice in the same words, it is there and
    in the log once. `children` are jobs it spawned with these steps. `files` are small ones that it
    leaves behind: there must be room for as many, as `keep_artifact` would say.
    """

    progress: Progress | None = None
    phase: str | None = None
    events: tuple[NewEvent, ...] = ()
    steps: tuple[Step, ...] = ()
    children: tuple[NewJob, ...] = ()
    files: tuple[SmallFile, ...] = ()


class Settlement(NamedTuple):
    """How an attempt ended, and what the job had still to say of itself."""

    lease: Lease
    outcome: Outcome
    report: Report | None = None


class Held(NamedTuple):
    """A job that a worker holds, and whether somebody wants it cancelled."""

    lease: Lease
    cancel_requested: bool


class Idempotency(NamedTuple):
    """A key under which a request happens once, and what tells that request from another."""

    key: str
    fingerprint: str
    expires_at: int


class Earlier(NamedTuple):
    """What was submitted under a key before: so many jobs, with consecutive ids."""

    first_id: str
    jobs: int
    fingerprint: str


class Deleted(NamedTuple):
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


class QueueStatus(NamedTuple):
    """How a queue stands."""

    name: str
    paused: bool
    ready: int
    delayed: int
    running: int
    oldest_ready: int | None  # when the oldest job that could start now was submitted
    concurrency: int | None = None  # how many of its jobs run at once; None: no limit


class Stands(NamedTuple):
    """What a kind's limit counts."""

    running: int  # of the kind, or of the key where the limit is by key
    free_at: int  # when the next may start by its rate, in microseconds


class SeenWorker(NamedTuple):
    """A registered worker; `known_dead` only where the store can tell for certain."""

    info: WorkerInfo
    known_dead: bool


class Swept(NamedTuple):
    """What one bounded sweep did; call again while `more` is true."""

    expired: int = 0
    deleted: int = 0
    batches: int = 0
    more: bool = False


class Store(ScheduleStore, WebhookStore, AccessStore, ResealingStore, Protocol):
    """Durable state, as semantic verbs; those on schedules stand in `coatcheck.store.schedules`,
    those on webhooks in `coatcheck.store.webhooks`, those on tenants and keys in
    `coatcheck.store.access`, those for sealing anew in `coatcheck.store.resealing`.
    """

    # Whether `report` may be called on another loop than the one the store was opened on.
    any_loop: bool

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
        self, job: NewJob, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> Earlier | None:
        """Make a job durable. An id that is there already is left as it is; a public id that is
        taken raises Conflict, an epoch that is not the present one AccessChanged. The uploads it
        names are its own from then on; where one is another job's by now, or its time has passed,
        that raises UploadGone.

        With `once` the key is written together with the job. Where another job holds the key,
        nothing is written and that one is returned: of any number of submits under one key,
        whenever and wherever they come, one happens, until the key expires.
        """
        ...

    async def submit_batch(
        self, jobs: Sequence[NewJob], now: int, once: Idempotency | None = None
    ) -> Earlier | None:
        """Make up to 10,000 jobs durable, all or none, without holding up other writers.

        With `once` as above; the ids must then be consecutive.
        """
        ...

    async def earlier(self, tenant: str, key: str, now: int) -> Earlier | None:
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

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[Event]:
        """Read a job's log in order, from the entry after the given number."""
        ...

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps, in the order in which its handler came to them."""
        ...

    async def messages(self, tenant: str, job_id: str) -> list[Message]:
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
        job: NewJob,
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

    async def delete(self, tenant: str, job_id: str, now: int) -> Deleted:
        """Remove a job that has ended and all that belongs to it; only a tombstone stays. Raises
        Conflict for one that has not ended, NotFound, Gone.
        """
        ...

    async def ahead_of(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the jobs of these kinds that are due and will be claimed from the job's queue
        before it, up to `most`: those of higher priority, and the older ones of its tenant. Other
        tenants' jobs of its priority take turns with it, however many there are.
        """
        ...

    # --- working

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Make a worker known, before its first claim."""
        ...

    async def beat(self, worker_id: str) -> bool:
        """Raise a worker's heartbeat count; False when it was removed as lost."""
        ...

    async def workers(self) -> list[SeenWorker]:
        """List the registered workers."""
        ...

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and treat what it still holds as lost; return how many jobs that was.

        With `beats` it is removed only if its count is still that; without, it says goodbye itself.
        None means that nothing was done: it is not known, or it has beaten since.
        """
        ...

    async def claim(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit] = NO_LIMITS,
        versions: Mapping[str, str] = NO_VERSIONS,
    ) -> Claimed:
        """Take up to `limit` jobs of these kinds that are due, from queues that are not paused, in
        the order of `coatcheck.store.turns`: higher priority first, then tenants in turn, then
        older first. A worker that was removed gets nothing. What another claim is looking at may be
        passed over; WORK is signalled if that one leaves it.

        `limits` are those of kinds, which hold over all workers that name them, as do those of
        queues; WORK is signalled when a job ends that one of them counted, and `next_due` is also
        when a kind may start again that has used up its rate. `versions` are those the worker has
        of kinds: a job that begins under one is not given to workers with another any more.
        """
        ...

    async def stands(self, kind: str, limit: Limit | None, tenant: str, key: str | None) -> Stands:
        """Count what runs of a kind, and of a key of it, and say when its rate lets the next start:
        as far as the limit goes.
        """
        ...

    async def held_by(self, worker_id: str) -> list[Held]:
        """List the jobs a worker holds, also those whose claim it never got the answer of."""
        ...

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself; False when the lease is stale."""
        ...

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts, all in one transaction. For each: True also when this very lease had
        settled the job before; False when the lease is stale.
        """
        ...

    # --- blobs

    async def reserve_blob(self, blob: BlobName, remove_at: int) -> None:
        """Note a blob before its bytes are written. Unless a job, a result or an artifact that is
        written names it before `remove_at`, it may be removed from then on.

        Each of those takes its blob over in its own transaction, and raises BlobGone where that is
        being removed.
        """
        ...

    async def keep_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Name a file of a running job, in place of the one that had the name; False when the
        lease is stale. Raises Conflict where the job has too many. `content` is that of a file
        which is kept in its row, in base 64.
        """
        ...

    async def artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read a file that is kept in its row; None where there is none."""
        ...

    async def unneeded_blobs(self, now: int, limit: int) -> list[BlobName]:
        """List blobs whose bytes are to be removed: of jobs that are deleted, replaced, or never
        named in time. They cannot be named any more.
        """
        ...

    async def forget_blobs(self, blobs: Sequence[BlobName]) -> None:
        """Drop what is known of blobs whose bytes are gone; those that a job keeps stay."""
        ...

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Make a file known whose bytes are written, as a blob that was noted for nobody; they are
        kept until its time has passed, or with the job that takes it over. Raises BlobGone.
        """
        ...

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read what is known of a job's file, or of one that no job has taken over."""
        ...

    async def uploads_of(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the files of a job's input."""
        ...

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Give a file up that no job has taken over; False when there is none."""
        ...

    # --- keeping house

    async def sweep(self, now: int) -> Swept:
        """Fail jobs past their deadline, drop inputs that are to be kept no longer, delete what
        retention has passed over unless its parent has not ended or a webhook is still to be
        delivered, finish batches that a crash left half-written and cancels of many children: a
        bounded amount, safe to run anywhere and at any time.
        """
        ...

    async def erase(self) -> bool:
        """See that what was removed cannot be read on the disk either, as far as the store promises
        that; False when it could not be done now.
        """
        ...

    async def queues(self) -> list[QueueStatus]:
        """List the queues that hold jobs or are paused, by name."""
        ...

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Stop or resume claims from a queue; what runs goes on."""
        ...

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Let so many jobs of a queue run at once, of all kinds together; None: no limit."""
        ...

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to counts kept beside the jobs, all in one write."""
        ...

    async def counters(self) -> dict[str, int]:
        """Read the counts kept beside the jobs, such as `stale_writes`."""
        ...

    # --- small documents

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
    ) -> Record | None:
        """Write a document and return it with its new version.

        With `expected_version` (0: it must not exist) it is written only over that version; None
        is returned when another one is there. An expired document counts as absent.
        """
        ...

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a document, unless it has expired."""
        ...

    async def list_records(
        self, tenant: str, collection: str, now: int, after: str = "", limit: int = 100
    ) -> list[Record]:
        """List a collection in the order of its keys, from the one after `after`."""
        ...

    async def delete_record(self, tenant: str, collection: str, key: str) -> bool:
        """Delete a document; False when there was none."""
        ...

    # --- being woken

    def subscribe(self, topic: Topic) -> Signal:
        """Be woken, on the running loop, by what any process does to this store."""
        ...
