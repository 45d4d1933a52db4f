"""Engine: the verbs on jobs that the HTTP API, the worker and the surfaces call.

The engine composes its parts and adds the clock and the kinds to the store's verbs. Each part takes
only the collaborators that it needs; none of them takes the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.clock import Clock, SystemClock
from coatcheck.egress.outbound import OutboundClient
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.auth import Admission, Authenticator, Pepper
from coatcheck.engine.bulk import (
    BulkOperations,
    BulkResult,
    Only,
    Resumed,
    match_all,
    resume_job,
)
from coatcheck.engine.explain import Explainer, HoldReason
from coatcheck.engine.fork import Fork, Forked, Forker
from coatcheck.engine.leases import Leases
from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.engine.open_requests import RequestLimits, TenantOpenLimit
from coatcheck.engine.payloads.large_steps import with_step_results
from coatcheck.engine.payloads.payloads import PayloadStore
from coatcheck.engine.payloads.uploads import Uploads
from coatcheck.engine.remote_workers import RemoteWorkers
from coatcheck.engine.resources import ExclusiveResources
from coatcheck.engine.schedules.scheduler import Scheduler
from coatcheck.engine.schedules.schedules import Schedules, submission_of
from coatcheck.engine.submit.estimates import Estimates
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.quotas import QuotaTracker
from coatcheck.engine.submit.submission import Submission, as_submitted
from coatcheck.engine.submit.submitter import Submitted, Submitter
from coatcheck.engine.submit.tenant_bounds import QueueNameLimit
from coatcheck.engine.waiters import EventReader, Waiters
from coatcheck.engine.webhooks.dispatcher import WebhookDispatcher
from coatcheck.engine.webhooks.endpoints import WebhookEndpoints
from coatcheck.errors import InvalidInput, NotFound, StoreError
from coatcheck.ids import UlidGenerator
from coatcheck.model.event import JobEvent
from coatcheck.model.job import DEFAULT_TENANT, Claim, Job, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.share import HeldSlots
from coatcheck.model.step import Step
from coatcheck.store.base import (
    ClaimResult,
    DeletedJob,
    FinishedJob,
    JobFilter,
    QueueStatus,
    Report,
    Settlement,
    Store,
)
from coatcheck.tracing import NO_TRACING, Tracing

if TYPE_CHECKING:
    from coatcheck.blobs.blobs import Blobs

log = logging.getLogger(__name__)


class Receipt(NamedTuple):
    """The result of a delete. The sweep retries the erasure until `erased`."""

    deleted: DeletedJob
    at: int
    erased: bool


class Engine:
    """The verbs on jobs, for one set of kinds on one store."""

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, Kind],
        clock: Clock | None = None,
        *,
        lease_s: float = 30.0,
        blobs: Blobs | None = None,
        egress: EgressPolicy | None = None,
        webhook_secret: str = "",
        pepper: Pepper = lambda: None,
        limits: RequestLimits = RequestLimits(),  # noqa: B008 - a value
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock = clock or SystemClock()
        self.new_id = new_id = UlidGenerator(clock)
        self.limits = limits
        self.tracing = tracing
        self.egress = egress or EgressPolicy()
        self.metrics = metrics = Metrics(store, clock)
        self.authenticator = Authenticator(store, clock, pepper, new_id)
        self.quotas = QuotaTracker(store, clock)
        self.open_requests = TenantOpenLimit(
            "open_requests", "requests and streams", limits.requests_per_tenant
        )
        self.payload_store = payload_store = PayloadStore(store, blobs, clock)
        in_flight = TenantOpenLimit("open_uploads", "uploads", limits.uploads_per_tenant)
        self.uploads = Uploads(store, payload_store, clock, new_id, in_flight)
        self.resources = ExclusiveResources(store, clock)
        self.schedules = Schedules(store, kinds, clock, new_id)
        self.scheduler = Scheduler(store, self.schedules, kinds, clock, metrics)
        self.webhooks = WebhookEndpoints(store, self.egress, clock, new_id, webhook_secret)
        self.dispatcher = WebhookDispatcher(
            store,
            self.webhooks,
            OutboundClient(self.egress),
            clock,
            metrics,
            payload_store,
            {name: kind.webhook_format for name, kind in kinds.items() if kind.webhook_format},
        )
        declared_queues = {kind.queue for kind in kinds.values()}
        self._submitter = Submitter(
            store,
            clock,
            kinds,
            new_id,
            quotas=self.quotas,
            queue_limit=QueueNameLimit(store, declared_queues, clock, limits.queues_per_tenant),
            payload_store=payload_store,
            uploads=self.uploads,
            webhooks=self.webhooks,
            metrics=metrics,
            resources=self.resources,
            tracing=tracing,
        )
        self._forker = Forker(
            store,
            clock,
            kinds,
            new_id,
            quotas=self.quotas,
            payload_store=payload_store,
            uploads=self.uploads,
            metrics=metrics,
        )
        self._bulk = BulkOperations(store, clock, self.erase)
        self._waiters = Waiters(store)
        self._events = EventReader(store)
        self._estimates = Estimates(store, clock)
        self._explainer = Explainer(store, clock, kinds)
        self._leases = Leases(
            store,
            clock,
            kinds,
            new_id,
            payload_store=payload_store,
            metrics=metrics,
            resources=self.resources,
        )
        self.remote_workers = RemoteWorkers(
            store,
            clock,
            kinds,
            new_id,
            leases=self._leases,
            waiters=self._waiters,
            payload_store=payload_store,
            metrics=metrics,
            lease_s=lease_s,
        )

    # --- submit

    async def submit(self, submission: Submission) -> Job:
        """Check a job and make it durable; return it as it is then."""
        return as_submitted(await self._submitter.insert(submission))

    async def insert(self, submission: Submission) -> JobInsert:
        """Check a job and make it durable; return only the row that was written."""
        return await self._submitter.insert(submission)

    async def submit_idempotent(self, submission: Submission, key: IdempotencyKey) -> Submitted:
        """Submit a job unless one was submitted under this key; return that one then."""
        return await self._submitter.submit_idempotent(submission, key)

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, admission: Admission | None = None
    ) -> None:
        """Make a job durable that was checked and run in this process.

        It is counted like a job that a worker ran. Raises ValueError if a payload is too large for
        the row.
        """
        await self._submitter.submit_finished(job, finished, admission)

    async def submit_batch(
        self, submissions: Sequence[Submission], key: IdempotencyKey | None = None
    ) -> Submitted:
        """Check all jobs and make all of them durable, or none; return them in order."""
        return await self._submitter.submit_batch(submissions, key)

    async def insert_batch(self, submissions: Sequence[Submission]) -> list[JobInsert]:
        """Submit a batch; return only the rows that were written."""
        return await self._submitter.insert_batch(submissions)

    async def submit_family(
        self,
        children: Sequence[Submission],
        parent_of: Callable[[Sequence[str]], Submission],
        key: IdempotencyKey | None = None,
    ) -> Submitted:
        """Submit children and the parent that waits for them, all or none; return the parent.

        `parent_of` makes the parent's submission from the children's ids. The parent's handler
        waits for them as for jobs that it has spawned.
        """
        return await self._submitter.submit_family(children, parent_of, key)

    async def trigger(
        self,
        schedule: str,
        key: IdempotencyKey | None = None,
        *,
        correlation: str | None = None,
        traceparent: str | None = None,
        tenant: str = DEFAULT_TENANT,
        admission: Admission | None = None,
    ) -> Submitted:
        """Submit a schedule's job now, even if the schedule is paused; its ticks do not change."""
        found = await self.schedules.get(schedule, tenant)
        submission = submission_of(found.definition, tenant)._replace(
            correlation_id=correlation, traceparent=traceparent, admission=admission
        )
        if key is None:
            submitted = Submitted([await self.submit(submission)], replayed=False)
        else:
            submitted = await self.submit_idempotent(submission, key)
        if not submitted.replayed:
            await self.schedules.record_job(found, submitted.jobs[0])
        return submitted

    # --- read

    async def get(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job with its result; raises NotFound, Gone."""
        return await self.payload_store.with_result(await self.store.jobs.get(tenant, job_id))

    async def get_without_result(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job without loading a result from the blob store; raises NotFound, Gone."""
        return await self.store.jobs.get(tenant, job_id)

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        return await self.store.jobs.list_jobs(which)

    async def events(
        self, job_id: str, after: int = 0, limit: int = 1000, tenant: str = DEFAULT_TENANT
    ) -> Sequence[JobEvent]:
        """Read a page of a job's event log."""
        return await self._events.read(tenant, job_id, after, limit)

    async def steps(self, job_id: str, tenant: str = DEFAULT_TENANT) -> list[Step]:
        """Read a job's steps with their results, in the order in which they were reached."""
        job = await self.store.jobs.get(tenant, job_id)
        return await with_step_results(
            self.payload_store, await self.store.jobs.list_steps(tenant, job.id)
        )

    async def steps_without_results(self, job: Job) -> list[Step]:
        """Read a job's steps without loading results from the blob store."""
        return await self.store.jobs.list_steps(job.tenant, job.id)

    async def step(self, job_id: str, seq: int, tenant: str = DEFAULT_TENANT) -> Step:
        """Read one step without loading its result from the blob store; raises NotFound, Gone."""
        job = await self.store.jobs.get(tenant, job_id)
        for step in await self.store.jobs.list_steps(tenant, job.id):
            if step.seq == seq:
                return step
        raise NotFound(f"job {job.id} has no step {seq}")

    async def position(self, job: Job) -> int | None:
        """Count the jobs ahead of one that is due, up to MAX_POSITION; None if it is not queued."""
        return await self._explainer.position(job)

    async def explain(self, job: Job) -> list[HoldReason]:
        """Return the reasons why a job is not running."""
        return await self._explainer.explain(job)

    def retry_after(self, job: Job | JobInsert) -> int:
        """Return the seconds after which a client should poll a job again."""
        return self._estimates.retry_after(job)

    def seconds_left(self, job: Job) -> int | None:
        """Estimate the seconds until a job finishes; None if there is nothing to estimate from."""
        return self._estimates.seconds_left(job)

    # --- wait

    async def wait(self, job_id: str, timeout: float, tenant: str = DEFAULT_TENANT) -> Job:
        """Wait until a job finishes or the time runs out; return the job with its result."""
        job = await self._waiters.wait_until_finished(tenant, job_id, timeout)
        return await self.payload_store.with_result(job)

    async def wait_for_job(self, job: Job, timeout: float) -> Job:
        """Wait like `wait` for a job that the caller has just read or submitted."""
        job = await self._waiters.wait_until_finished(job.tenant, job.id, timeout, job)
        return await self.payload_store.with_result(job)

    async def wait_for_event(self, job: Job, after: int, timeout: float) -> Job | None:
        """Wait until a job has an event after `after` or finishes; return the job.

        Return None if the time runs out or this process is about to stop. Raises NotFound, Gone.
        """
        changed = await self._waiters.wait_for_event((job.tenant, job.id), after, timeout)
        return None if changed is None else await self.payload_store.with_result(changed)

    def release_waiters(self) -> None:
        """Wake everyone who waits for a job, because this process is about to stop."""
        self._waiters.release()

    @property
    def stopping(self) -> bool:
        """Whether `release_waiters` was called."""
        return self._waiters.released

    # --- change

    async def cancel(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Cancel a job: at once if it is not running, else by a request to its worker."""
        return await self.payload_store.with_result(
            await self.store.jobs.cancel(tenant, job_id, self.clock.now())
        )

    async def send(
        self,
        job_id: str,
        name: str,
        data: str = "null",
        tenant: str = DEFAULT_TENANT,
        *,
        key: str | None = None,
    ) -> Job:
        """Send an event with JSON data to an unfinished job; repeats under one key count once."""
        if not is_name(name):
            raise InvalidInput(f"this cannot be an event's name: {NAME_RULE}")
        key = key or self.new_id()  # the store may retry the write
        if self.payload_store.is_large(data):
            job = await self.store.jobs.get(tenant, job_id)
            data = await self.payload_store.offload(tenant, job.id, data)
        return await self.store.jobs.send_event(tenant, job_id, name, data, self.clock.now(), key)

    async def resume(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Resumed:
        """Queue a failed or cancelled job again; leave any other job as it is."""
        resumed = await resume_job(self.store, tenant, job_id, self.clock.now())
        return resumed._replace(job=await self.payload_store.with_result(resumed.job))

    async def fork(
        self, fork: Fork, key: IdempotencyKey | None = None, tenant: str = DEFAULT_TENANT
    ) -> Forked:
        """Submit a job that starts from another job's checkpoints before `fork.from_step`."""
        return await self._forker.fork(tenant, fork, key)

    async def resume_all(
        self, which: JobFilter, *, dry_run: bool = False, only: Only = match_all
    ) -> BulkResult:
        """Resume the newest jobs that match a filter, a bounded number, or only count them."""
        return await self._bulk.resume(which, only, dry_run=dry_run)

    async def cancel_all(
        self, which: JobFilter, *, dry_run: bool = False, only: Only = match_all
    ) -> BulkResult:
        """Cancel the newest jobs that match a filter, a bounded number, or only count them."""
        return await self._bulk.cancel(which, only, dry_run=dry_run)

    async def delete_all(
        self, which: JobFilter, *, dry_run: bool = False, only: Only = match_all
    ) -> BulkResult:
        """Delete the newest jobs that match a filter, a bounded number, or only count them."""
        return await self._bulk.delete(which, only, dry_run=dry_run)

    async def delete(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Receipt:
        """Delete a finished job and everything that belongs to it."""
        now = self.clock.now()
        deleted = await self.store.jobs.delete(tenant, job_id, now)
        return Receipt(deleted, now, await self.erase(had_blobs=deleted.blobs > 0))

    async def erase(self, *, had_blobs: bool = True) -> bool:
        """Erase the bytes of deleted jobs from the disk; False if the sweep has to finish it."""
        try:
            await self.payload_store.sweep()
            bytes_left = had_blobs and await self.store.files.start_blob_removal(
                self.clock.now(), 1
            )
            return await self.store.maintenance.erase_deleted() and not bytes_left
        except StoreError as error:  # the job is deleted, and the sweep will retry
            log.warning("erase incomplete", extra={"why": str(error)})
            return False

    # --- queues

    async def queues(self) -> list[QueueStatus]:
        """List queues and their depths: those with jobs, paused ones, and those of the kinds."""
        found = {queue.name: queue for queue in await self.store.queues.list_queues()}
        for kind in self.kinds.values():
            found.setdefault(kind.queue, QueueStatus(kind.queue, False, 0, 0, 0, None))
        return [found[name] for name in sorted(found)]

    async def pause_queue(self, name: str) -> None:
        """Stop claims from a queue; running jobs continue."""
        await self.store.queues.pause_queue(name, True, self.clock.now())

    async def resume_queue(self, name: str) -> None:
        """Allow claims from a paused queue."""
        await self.store.queues.pause_queue(name, False, self.clock.now())

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Limit how many jobs of a queue run at once; None removes the limit."""
        await self.store.queues.limit_queue(name, concurrency)

    # --- workers

    def names_of(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Return the names under which a worker registers these kinds, with their versions."""
        return self._leases.names_of(kinds)

    async def claim(
        self, worker_id: str, kinds: Sequence[str], limit: int, held: HeldSlots | None = None
    ) -> ClaimResult:
        """Claim up to `limit` jobs for a worker, within its tenants' shares of the held slots."""
        return await self._leases.claim(worker_id, kinds, limit, held)

    def child_of(self, claim: Claim, kind: str, input_: str) -> JobInsert:
        """Check a job that a handler spawns; return its row, to be written with the step."""
        return self._leases.child_of(claim, kind, input_)

    async def report(self, lease: Lease, report: Report) -> bool:
        """Write a running job's steps, progress and events; False if the lease is stale."""
        return await self._leases.report(lease, report)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Write the outcomes of attempts; False for each whose lease is stale."""
        return await self._leases.settle(settlements)
