"""Engine: what every door calls. It adds the clock and the kinds to the store's verbs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck import tracing
from coatcheck.clock import Clock, SystemClock
from coatcheck.egress.guard import EgressPolicy
from coatcheck.egress.outbound import OutboundClient
from coatcheck.engine import bulk, resume_fork
from coatcheck.engine.auth import Admission, Authenticator, Pepper
from coatcheck.engine.bulk import BulkResult, Only, match_all
from coatcheck.engine.event_reader import EventReader
from coatcheck.engine.explain import MAX_POSITION, HoldReason, what_holds
from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.engine.open_requests import RequestLimits, TenantOpenLimit
from coatcheck.engine.payloads.large_steps import offload_step_results, with_step_results
from coatcheck.engine.payloads.payloads import PayloadStore
from coatcheck.engine.payloads.uploads import Uploads
from coatcheck.engine.remote_workers import RemoteWorkers
from coatcheck.engine.resources import ExclusiveResources
from coatcheck.engine.resume_fork import Fork, Forked, Resumed
from coatcheck.engine.schedules.scheduler import Scheduler
from coatcheck.engine.schedules.schedules import Schedules, submission_of
from coatcheck.engine.submit import submit
from coatcheck.engine.submit.admission import AdmissionControl
from coatcheck.engine.submit.estimates import Estimates
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.quotas import QuotaTracker
from coatcheck.engine.submit.submission import Submission, as_submitted, prepare
from coatcheck.engine.submit.submit import Submitted
from coatcheck.engine.submit.tenant_bounds import QueueNameLimit
from coatcheck.engine.waiters import Waiters
from coatcheck.engine.webhooks.dispatcher import WebhookDispatcher
from coatcheck.engine.webhooks.endpoints import WebhookEndpoints
from coatcheck.errors import InvalidInput, NotFound, StoreError
from coatcheck.ids import UlidGenerator
from coatcheck.model.event import JobEvent
from coatcheck.model.job import DEFAULT_TENANT, Claim, Job, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.outcome import Succeeded
from coatcheck.model.payload import fits_inline
from coatcheck.model.share import HeldSlots
from coatcheck.model.state import State
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
from coatcheck.store.fairness import names_in_lanes

if TYPE_CHECKING:
    from coatcheck.blobs.blobs import Blobs

log = logging.getLogger(__name__)


class Receipt(NamedTuple):
    """What was removed with a job, when, and whether its bytes are gone from the disk by now; where
    they are not, the sweep goes on with it.
    """

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
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock or SystemClock()
        self.new_id = UlidGenerator(self.clock)
        self.payload_store = PayloadStore(store, blobs, self.clock)
        self.limits = limits
        self.open_requests = TenantOpenLimit(
            "open_requests", "requests and streams", limits.requests_per_tenant
        )
        in_flight = TenantOpenLimit("open_uploads", "uploads", limits.uploads_per_tenant)
        self.uploads = Uploads(store, self.payload_store, self.clock, self.new_id, in_flight)
        self.metrics = Metrics(store, self.clock)
        self.resources = ExclusiveResources(store, self.clock)
        self.authenticator = Authenticator(store, self.clock, pepper, self.new_id)
        self.quotas = QuotaTracker(store, self.clock)
        declared = {kind.queue for kind in kinds.values()}
        self.queue_limit = QueueNameLimit(store, declared, self.clock, limits.queues_per_tenant)
        self.admission_control = AdmissionControl(store, self.clock, self.quotas, self.metrics)
        self.remote_workers = RemoteWorkers(self, lease_s)
        self.schedules = Schedules(store, kinds, self.clock, self.new_id)
        self.scheduler = Scheduler(store, self.schedules, kinds, self.clock, self.metrics)
        self.egress = egress or EgressPolicy()
        self.webhooks = WebhookEndpoints(
            store, self.egress, self.clock, self.new_id, webhook_secret
        )
        named = kinds.items()
        self.dispatcher = WebhookDispatcher(
            store,
            self.webhooks,
            OutboundClient(self.egress),
            self.clock,
            self.metrics,
            self.payload_store,
            {name: kind.webhook_format for name, kind in named if kind.webhook_format is not None},
        )
        self._waiters = Waiters(store)
        self._events = EventReader(store)
        self._estimates = Estimates(store, self.clock)
        self._limits = {name: kind.limit for name, kind in named if kind.limit is not None}
        self._age_boosts = {name: kind.age_boosts for name, kind in named if kind.age_boosts}
        self._versions = {name: kind.version for name, kind in named if kind.version is not None}

    # --- handing in

    async def submit(self, submission: Submission) -> Job:
        """Check a job, make it durable, and return it as it stands then."""
        return as_submitted(await self.insert(submission))

    async def insert(self, submission: Submission) -> JobInsert:
        """Do the same, and return only what was written."""
        if not tracing.is_on():
            job, _ = await submit.submit(self, submission, None)
            return job
        with tracing.submitting(submission.kind, submission.traceparent) as traceparent:
            job, _ = await submit.submit(self, submission._replace(traceparent=traceparent), None)
            return job

    async def submit_once(self, submission: Submission, once: IdempotencyKey) -> Submitted:
        """Submit a job unless one was submitted under this key before; return that one then."""
        with tracing.submitting(submission.kind, submission.traceparent) as traceparent:
            traced = submission._replace(traceparent=traceparent)
            job, earlier = await submit.submit(self, traced, once)
        if earlier is None:
            return Submitted([as_submitted(job)], replayed=False)
        return await submit.replayed(self, earlier, once, job.tenant)

    async def submit_finished(
        self, job: JobInsert, ended: FinishedJob, admission: Admission | None = None
    ) -> None:
        """Make a job durable that was checked and run here, and has ended; it is counted like one
        that a worker ran. A payload that is kept apart does not go this way: raises ValueError.
        """
        await submit.submit_finished(self, job, ended, admission)

    async def trigger(
        self,
        schedule: str,
        once: IdempotencyKey | None = None,
        *,
        correlation: str | None = None,
        traceparent: str | None = None,
        tenant: str = DEFAULT_TENANT,
        admission: Admission | None = None,
    ) -> Submitted:
        """Submit a job of a schedule now, also of a paused one; its ticks stay as they are."""
        found = await self.schedules.get(schedule, tenant)
        submission = submission_of(found.definition, tenant)._replace(
            correlation_id=correlation, traceparent=traceparent, admission=admission
        )
        if once is None:
            submitted = Submitted([await self.submit(submission)], replayed=False)
        else:
            submitted = await self.submit_once(submission, once)
        if not submitted.replayed:
            await self.schedules.remember(found, submitted.jobs[0])
        return submitted

    async def submit_batch(
        self, submissions: Sequence[Submission], once: IdempotencyKey | None = None
    ) -> Submitted:
        """Check every job, then make all of them durable, or none; return them in order."""
        jobs, earlier = await submit.submit_batch(self, submissions, once)
        if earlier is not None and once is not None:
            return await submit.replayed(self, earlier, once, jobs[0].tenant)
        return Submitted(await submit.apart(jobs, _all_as_submitted, jobs), replayed=False)

    async def insert_batch(self, submissions: Sequence[Submission]) -> list[JobInsert]:
        """Do the same, and return only what was written."""
        jobs, _ = await submit.submit_batch(self, submissions, None)
        return jobs

    async def submit_family(
        self,
        children: Sequence[Submission],
        parent_of: Callable[[Sequence[str]], Submission],
        once: IdempotencyKey | None = None,
    ) -> Submitted:
        """Make jobs durable together with one that is theirs, all or none, and return that one. It
        is made of their ids: its handler waits for them, as for jobs that it had spawned.
        """
        ids = self.new_id.consecutive(len(children) + 1)
        # The parent comes last, so that its children are there when it is.
        submissions = [*children, parent_of(ids[:-1])]
        jobs, earlier = await submit.submit_batch(self, submissions, once, ids, is_family=True)
        if earlier is not None and once is not None:
            found = await submit.replayed(self, earlier, once, jobs[0].tenant)
            return found._replace(jobs=found.jobs[-1:])
        return Submitted([as_submitted(jobs[-1])], replayed=False)

    # --- looking

    async def get(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job; raises NotFound or Gone."""
        return await self.payload_store.with_result(await self.store.get(tenant, job_id))

    async def get_without_result(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job, and leave a result that is kept apart where it is; raises NotFound, Gone."""
        return await self.store.get(tenant, job_id)

    async def wait(self, job_id: str, timeout: float, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job when it has ended, or as it stands when the time runs out."""
        return await self.payload_store.with_result(
            await self._waiters.wait_until_finished(tenant, job_id, timeout)
        )

    async def wait_for_job(self, job: Job, timeout: float) -> Job:
        """Do the same for a job that the caller has just seen, or handed in."""
        return await self.payload_store.with_result(
            await self._waiters.wait_until_finished(job.tenant, job.id, timeout, job)
        )

    async def wait_for_event(self, job: Job, after: int, timeout: float) -> Job | None:
        """Read a job again when it has an event after this one or has ended; None if the time runs
        out first, or this process is about to stop. Raises NotFound, Gone.
        """
        moved = await self._waiters.wait_for_event((job.tenant, job.id), after, timeout)
        return None if moved is None else await self.payload_store.with_result(moved)

    def release_waiters(self) -> None:
        """Let everybody who waits for a job go: this process is about to stop."""
        self._waiters.release()

    @property
    def stopping(self) -> bool:
        """Whether waiters have been let go for good."""
        return self._waiters.released

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        return await self.store.list_jobs(which)

    async def events(
        self, job_id: str, after: int = 0, limit: int = 1000, tenant: str = DEFAULT_TENANT
    ) -> Sequence[JobEvent]:
        """Read a job's log. Those who ask for the same at the same time share one read."""
        return await self._events.read(tenant, job_id, after, limit)

    async def steps(self, job_id: str, tenant: str = DEFAULT_TENANT) -> list[Step]:
        """Read a job's steps, in the order in which its handler came to them."""
        job = await self.store.get(tenant, job_id)
        return await with_step_results(self.payload_store, await self.store.steps(tenant, job.id))

    async def steps_without_results(self, job: Job) -> list[Step]:
        """Read a job's steps, and leave results that are kept apart where they are."""
        return await self.store.steps(job.tenant, job.id)

    async def step(self, job_id: str, seq: int, tenant: str = DEFAULT_TENANT) -> Step:
        """Read a step, and leave a result that is kept apart where it is; raises NotFound, Gone."""
        job = await self.store.get(tenant, job_id)
        for step in await self.store.steps(tenant, job.id):
            if step.seq == seq:
                return step
        raise NotFound(f"job {job.id} has no step {seq}")

    async def position(self, job: Job) -> int | None:
        """Count the jobs before one that is due, up to FARTHEST; None where it does not queue."""
        if job.state is not State.QUEUED or job.run_at > self.clock.now():
            return None
        return await self.store.ahead_of(job, list(self.kinds), MAX_POSITION)

    def retry_after(self, job: Job | JobInsert) -> int:
        """Return in how many seconds it is worth asking about a job again."""
        return self._estimates.retry_after(job)

    def seconds_left(self, job: Job) -> int | None:
        """Return in how many seconds a job will have ended; None where nothing tells."""
        return self._estimates.left_s(job)

    async def explain(self, job: Job) -> list[HoldReason]:
        """Say what holds a job."""
        return await what_holds(self, job)

    # --- steering

    async def cancel(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Cancel a job: at once if nobody runs it, else its worker is told."""
        return await self.payload_store.with_result(
            await self.store.cancel(tenant, job_id, self.clock.now())
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
        """Send an event, with data as a JSON text, to a job that has not ended; under the same key
        once, however often it is repeated.
        """
        if not is_name(name):
            raise InvalidInput(f"this cannot be an event's name: {NAME_RULE}")
        key = key or self.new_id()  # for the store, which may have to try again itself
        if self.payload_store.is_large(data):
            job = await self.store.get(tenant, job_id)
            data = await self.payload_store.offload(tenant, job.id, data)
        return await self.store.send(tenant, job_id, name, data, self.clock.now(), key)

    async def resume(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Resumed:
        """Queue a job again that failed or was cancelled; any other is left as it is."""
        return await resume_fork.resume(self, tenant, job_id)

    async def resume_all(
        self, which: JobFilter, *, dry_run: bool = False, only: Only = match_all
    ) -> BulkResult:
        """Resume the newest jobs that a filter finds, a bounded number; or only count them."""
        return await resume_fork.resume_some(self, which, only, dry_run=dry_run)

    async def cancel_all(
        self, which: JobFilter, *, dry_run: bool = False, only: Only = match_all
    ) -> BulkResult:
        """Cancel the newest jobs that a filter finds, a bounded number; or only count them."""
        return await bulk.cancel_some(self, which, only, dry_run=dry_run)

    async def delete_all(
        self, which: JobFilter, *, dry_run: bool = False, only: Only = match_all
    ) -> BulkResult:
        """Delete the newest jobs that a filter finds, a bounded number; or only count them."""
        return await bulk.delete_some(self, which, only, dry_run=dry_run)

    async def fork(
        self, asked: Fork, once: IdempotencyKey | None = None, tenant: str = DEFAULT_TENANT
    ) -> Forked:
        """Make a new job that begins with the steps of another, up to one of them."""
        return await resume_fork.fork(self, tenant, asked, once)

    async def delete(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Receipt:
        """Remove a job that has ended, and all that belongs to it."""
        now = self.clock.now()
        deleted = await self.store.delete(tenant, job_id, now)
        return Receipt(deleted, now, await self.erase(had_blobs=deleted.blobs > 0))

    async def erase(self, *, had_blobs: bool = True) -> bool:
        """See that the bytes of what was deleted are gone from the disk; False when the sweep has
        to go on with it.
        """
        try:
            await self.payload_store.sweep()
            bytes_left = had_blobs and await self.store.unneeded_blobs(self.clock.now(), 1)
            return await self.store.erase() and not bytes_left
        except StoreError as error:  # the job is gone, and the sweep will come again
            log.warning("what was deleted is not erased yet", extra={"why": str(error)})
            return False

    async def queues(self) -> list[QueueStatus]:
        """List the queues and how deep they are: those with jobs, paused ones, the kinds' own."""
        found = {queue.name: queue for queue in await self.store.queues()}
        for kind in self.kinds.values():
            found.setdefault(kind.queue, QueueStatus(kind.queue, False, 0, 0, 0, None))
        return [found[name] for name in sorted(found)]

    async def pause_queue(self, name: str) -> None:
        """Stop claims from a queue; what runs goes on."""
        await self.store.pause_queue(name, True, self.clock.now())

    async def resume_queue(self, name: str) -> None:
        """Let a paused queue go on."""
        await self.store.pause_queue(name, False, self.clock.now())

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Let so many jobs of a queue run at once; None: no limit."""
        await self.store.limit_queue(name, concurrency)

    # --- for workers

    def names_of(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Return what a worker with these kinds says it has: with their versions."""
        return tuple(sorted(names_in_lanes(list(kinds), self._versions)))

    async def claim(
        self, worker_id: str, kinds: Sequence[str], limit: int, held: HeldSlots | None = None
    ) -> ClaimResult:
        """Take up to `limit` jobs for a worker, none that exceed the share of what it has held."""
        now = self.clock.now()
        limits = {name: self._limits[name] for name in kinds if name in self._limits}
        for name in self._age_boosts.keys() & limits.keys():
            limits[name] = limits[name]._replace(age_boosts=self._age_boosts[name]())
        versions = {name: self._versions[name] for name in kinds if name in self._versions}
        claimed = await self.store.claim(
            worker_id, kinds, limit, now, limits, versions, *([] if held is None else [held])
        )
        for claim in claimed.claims:
            self.metrics.started(claim.kind, now - claim.run_at)
        return claimed

    def child_of(self, claim: Claim, kind: str, input_: str) -> JobInsert:
        """Check a job that another one spawns, and return it to be written with that one's step."""
        now = self.clock.now()
        asked = Submission(
            kind,
            input_,
            tenant=claim.lease.tenant,
            correlation_id=claim.correlation_id,
            traceparent=claim.traceparent,
        )
        job = prepare(asked, self.kinds, self.new_id(), now)
        return job._replace(terms=job.terms._replace(parent=claim.lease.job_id))

    async def report(self, lease: Lease, report: Report) -> bool:
        """Write what a running job says of itself; False when the lease is stale."""
        if report.steps:
            report = await offload_step_results(self.payload_store, lease, report)
        return await self.store.report(lease, report, self.clock.now())

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts; False for each whose lease is stale."""
        if any(has_large_payload(each) for each in settlements):
            settlements = await self.payload_store.offload_results(settlements)
            settlements = [
                each
                if each.report is None
                else each._replace(
                    report=await offload_step_results(self.payload_store, each.lease, each.report)
                )
                for each in settlements
            ]
        began = self.clock.monotonic()
        answers = await self.store.settle(settlements, self.clock.now())
        self.metrics.store_latency.add(self.clock.monotonic() - began)
        if self.resources.in_use:
            for each in settlements:
                self.resources.release(each.lease)
        return answers


def has_large_payload(settlement: Settlement) -> bool:
    """Tell whether an attempt ended with a result that is kept apart, or with a step that did."""
    _, outcome, report = settlement
    if isinstance(outcome, Succeeded) and not fits_inline(outcome.result):
        return True
    return report is not None and any(
        step.result is not None and not fits_inline(step.result) for step in report.steps
    )


def _all_as_submitted(jobs: Sequence[JobInsert]) -> list[Job]:
    return [as_submitted(job) for job in jobs]
