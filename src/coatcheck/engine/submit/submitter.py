"""Submit jobs: one, a batch, a parent with its children, or a job that has finished already.

A submit runs in this order:

1. Check the submission against its kind and the tenant's limits.
2. Take over its uploads, check its webhook address and offload a large input to the blob store.
3. Reserve the job in the tenant's quotas, and insert it.

Nothing before the insert is visible to anyone. If an earlier request under the same idempotency key
made the job, the submit inserts nothing, removes the blobs it has written and returns that job.

The insert of a single job carries the access epoch under which the caller was authorized. If keys
or tenants have changed since, the store rejects it. The caller is then authorized again, and the
insert is repeated under the same id, so it still makes one job.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from coatcheck.clock import Clock
from coatcheck.engine.submit.submission import (
    Submission,
    as_submitted,
    prepare_all,
    prepare_with_uploads,
)
from coatcheck.errors import AccessChanged, Gone, InvalidInput, NotFound, QuotaExceeded
from coatcheck.ids import UlidGenerator, ulids_from
from coatcheck.model.access import Quotas
from coatcheck.model.job import Job, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Succeeded
from coatcheck.model.usage import bytes_of
from coatcheck.store.base import BATCH_LIMIT, ExistingSubmission, FinishedJob, Store

if TYPE_CHECKING:
    from coatcheck.engine.auth import Admission
    from coatcheck.engine.maintenance.metrics import Metrics
    from coatcheck.engine.payloads.payloads import PayloadStore
    from coatcheck.engine.payloads.uploads import Uploads
    from coatcheck.engine.resources import ExclusiveResources
    from coatcheck.engine.submit.idempotency import IdempotencyKey
    from coatcheck.engine.submit.quotas import QuotaTracker
    from coatcheck.engine.submit.tenant_bounds import QueueNameLimit
    from coatcheck.engine.webhooks.endpoints import WebhookEndpoints
    from coatcheck.tracing import Tracing

# A larger batch is prepared in a thread, so that the event loop can answer other requests.
MAX_ON_LOOP = 50

T = TypeVar("T")


class Submitted(NamedTuple):
    """Submitted jobs; `replayed` if an earlier request under the same key made them."""

    jobs: list[Job]
    replayed: bool


class Submitter:
    """The write path from a submission to the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kinds: Mapping[str, Kind],
        new_id: UlidGenerator,
        *,
        quotas: QuotaTracker,
        queue_limit: QueueNameLimit,
        payload_store: PayloadStore,
        uploads: Uploads,
        webhooks: WebhookEndpoints,
        metrics: Metrics,
        resources: ExclusiveResources,
        tracing: Tracing,
    ) -> None:
        self._store = store
        self._clock = clock
        self._kinds = kinds
        self._new_id = new_id
        self._quotas = quotas
        self._queue_limit = queue_limit
        self._payload_store = payload_store
        self._uploads = uploads
        self._webhooks = webhooks
        self._metrics = metrics
        self._resources = resources
        self._tracing = tracing

    # --- one job

    async def insert(self, submission: Submission) -> JobInsert:
        """Check a job and make it durable; return the row that was written."""
        if not self._tracing.is_on:
            job, _ = await self._submit(submission, None)
            return job
        with self._tracing.submit_span(submission.kind, submission.traceparent) as traceparent:
            job, _ = await self._submit(submission._replace(traceparent=traceparent), None)
            return job

    async def submit_idempotent(self, submission: Submission, key: IdempotencyKey) -> Submitted:
        """Submit a job unless one was submitted under this key; return that one then."""
        with self._tracing.submit_span(submission.kind, submission.traceparent) as traceparent:
            traced = submission._replace(traceparent=traceparent)
            job, existing = await self._submit(traced, key)
        if existing is None:
            return Submitted([as_submitted(job)], replayed=False)
        return await self._replay(existing, key, job.tenant)

    async def _submit(
        self, submission: Submission, key: IdempotencyKey | None
    ) -> tuple[JobInsert, ExistingSubmission | None]:
        if submission.queue is not None and submission.admission is not None:
            await self._queue_limit.check(submission.tenant, [submission.queue])
        now = self._clock.now()
        job_id = submission.job_id or self._new_id()
        job, uploads = prepare_with_uploads(submission, self._kinds, job_id, now)
        if uploads:
            [job] = await self._uploads.with_uploads([job], [uploads])
        if submission.webhook is not None:
            await self._ensure_signing_secret([submission])
            callback = await self._webhooks.resolve_callback(submission.webhook, submission.tenant)
            job = job._replace(webhook=callback)
        if self._payload_store.is_large(job.input):
            [job] = await self._payload_store.offload_inputs([job])
        existing = await self._insert(job, now, key, submission.admission)
        if existing is None:
            self._metrics.submitted(job.kind)
        else:
            await self._payload_store.drop_inputs([job])
        return job, existing

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, admission: Admission | None
    ) -> None:
        """Make a job durable that has finished, and count its attempt.

        Raises ValueError if a payload is too large for the row.
        """
        if any(map(self._payload_store.is_large, _payloads_of(job, finished))):
            raise ValueError(f"job {job.id} has a payload for the blob store: submit it instead")
        now = self._clock.now()
        await self._insert(job, now, None, admission, finished)
        self._metrics.submitted(job.kind)
        self._metrics.started(job.kind, finished.began_at - job.run_at)
        ran_ms = max(0, now - finished.began_at)
        self._metrics.settled(job.kind, job.queue, finished.outcome, last=True, ran_ms=ran_ms)
        if self._resources.in_use:
            self._resources.release(Lease(job.tenant, job.id, 1))

    async def _insert(
        self,
        job: JobInsert,
        now: int,
        key: IdempotencyKey | None,
        admission: Admission | None,
        finished: FinishedJob | None = None,
    ) -> ExistingSubmission | None:
        """Insert a job within its tenant's quotas; authorize again and retry if access changed.

        `admission` is None for callers that need no authorization. Return the submission that holds
        the key, if there is one.
        """
        stored_key = None if key is None else key.stored(now)
        while True:
            quotas = None if admission is None else admission.quotas
            epoch = None if admission is None else admission.epoch
            if quotas is not None and not self._quotas.try_reserve(
                job.tenant, quotas, 1, bytes_of(job.input)
            ):
                existing = await self._reserve(quotas, [job], key, now)
                if existing is not None:
                    return existing
            began = self._clock.monotonic()
            try:
                if finished is None:
                    existing = await self._store.jobs.submit(job, now, stored_key, epoch)
                else:
                    existing = None
                    await self._store.jobs.submit_finished(job, finished, now, epoch)
            except BaseException as error:
                self._release(quotas, [job])
                if admission is None or not isinstance(error, AccessChanged):
                    raise
                admission = await admission.renew()
                continue
            self._metrics.store_latency.add(self._clock.monotonic() - began)
            if existing is not None:
                self._release(quotas, [job])
            return existing

    # --- batches

    async def insert_batch(self, submissions: Sequence[Submission]) -> list[JobInsert]:
        """Check all jobs and make all of them durable, or none; return the rows in order."""
        jobs, _ = await self._submit_batch(submissions, None)
        return jobs

    async def submit_batch(
        self, submissions: Sequence[Submission], key: IdempotencyKey | None
    ) -> Submitted:
        """Check all jobs and make all of them durable, or none; return them in order."""
        jobs, existing = await self._submit_batch(submissions, key)
        if existing is not None and key is not None:
            return await self._replay(existing, key, jobs[0].tenant)
        return Submitted(await _off_loop(jobs, _all_as_submitted, jobs), replayed=False)

    async def submit_family(
        self,
        children: Sequence[Submission],
        parent_of: Callable[[Sequence[str]], Submission],
        key: IdempotencyKey | None,
    ) -> Submitted:
        """Submit children and the parent that waits for them, all or none; return the parent.

        `parent_of` makes the parent's submission from the children's ids.
        """
        ids = self._new_id.consecutive(len(children) + 1)
        # The parent comes last, so that its children exist when it does.
        submissions = [*children, parent_of(ids[:-1])]
        jobs, existing = await self._submit_batch(submissions, key, ids, is_family=True)
        if existing is not None and key is not None:
            found = await self._replay(existing, key, jobs[0].tenant)
            return found._replace(jobs=found.jobs[-1:])
        return Submitted([as_submitted(jobs[-1])], replayed=False)

    async def _submit_batch(
        self,
        submissions: Sequence[Submission],
        key: IdempotencyKey | None,
        ids: Sequence[str] | None = None,
        *,
        is_family: bool = False,
    ) -> tuple[list[JobInsert], ExistingSubmission | None]:
        if len(submissions) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs")
        admission = submissions[0].admission if submissions else None
        if admission is not None:
            queues = {each.queue for each in submissions}
            await self._queue_limit.check(submissions[0].tenant, queues)
        now = self._clock.now()
        ids = ids or self._new_id.consecutive(len(submissions))
        prepared = await _off_loop(submissions, prepare_all, submissions, self._kinds, ids, now)
        jobs = [each.job for each in prepared]
        if is_family:
            parent = jobs[-1].id
            jobs[:-1] = [job._replace(terms=job.terms._replace(parent=parent)) for job in jobs[:-1]]
        if any(each.uploads for each in prepared):
            jobs = await self._uploads.with_uploads(jobs, [each.uploads for each in prepared])
        if any(each.webhook is not None for each in submissions):
            await self._ensure_signing_secret(submissions)
            specs = [(each.webhook, each.tenant) for each in submissions]
            callbacks = await self._webhooks.resolve_callbacks(specs)
            jobs = [job._replace(webhook=own) for job, own in zip(jobs, callbacks, strict=True)]
        if any(self._payload_store.is_large(job.input) for job in jobs):
            jobs = await self._payload_store.offload_inputs(jobs)
        existing = await self._insert_batch(jobs, now, key, admission)
        if existing is None:
            for kind, count in Counter([job.kind for job in jobs]).items():
                self._metrics.submitted(kind, count)
        else:
            await self._payload_store.drop_inputs(jobs)
        return jobs, existing

    async def _insert_batch(
        self,
        jobs: Sequence[JobInsert],
        now: int,
        key: IdempotencyKey | None,
        admission: Admission | None,
    ) -> ExistingSubmission | None:
        # A batch carries no epoch: its request was authorized right before it was read.
        quotas = None if admission is None else admission.quotas
        if quotas is not None:
            existing = await self._reserve(quotas, jobs, key, now)
            if existing is not None:
                return existing
        try:
            stored_key = None if key is None else key.stored(now)
            existing = await self._store.jobs.submit_batch(jobs, now, stored_key)
        except BaseException:
            self._release(quotas, jobs)
            raise
        if existing is not None:
            self._release(quotas, jobs)
        return existing

    # --- quotas, webhooks, replay

    async def _reserve(
        self, quotas: Quotas, jobs: Sequence[JobInsert], key: IdempotencyKey | None, now: int
    ) -> ExistingSubmission | None:
        """Reserve jobs in their tenant's quotas; raises QuotaExceeded.

        A repeated request takes nothing from a quota. If it does not fit, return what the first
        request made.
        """
        tenant = jobs[0].tenant
        try:
            await self._quotas.reserve(tenant, quotas, len(jobs), _total_bytes(jobs))
        except QuotaExceeded:
            existing = (
                None
                if key is None
                else await self._store.jobs.find_submission(tenant, key.key, now)
            )
            if existing is None:
                raise
            return existing
        return None

    def _release(self, quotas: Quotas | None, jobs: Sequence[JobInsert]) -> None:
        if quotas is not None:
            self._quotas.release(jobs[0].tenant, len(jobs), _total_bytes(jobs))

    async def _ensure_signing_secret(self, submissions: Sequence[Submission]) -> None:
        """Check that the jobs' own webhooks can be signed, unless their surface signs them."""
        for each in submissions:
            own = self._kinds[each.kind].webhook_format
            if each.webhook is not None and (own is None or own.surface != each.surface):
                await self._webhooks.ensure_signing_secret(each.tenant)
                return

    async def _replay(
        self, existing: ExistingSubmission, key: IdempotencyKey, tenant: str
    ) -> Submitted:
        """Return the jobs that an earlier request under this key made; raises KeyReused, Gone."""
        key.check(existing.fingerprint)
        ids = ulids_from(existing.first_id, existing.jobs)
        if len(ids) == 1:
            try:
                job = await self._store.jobs.get(tenant, ids[0])
            except NotFound:
                raise Gone(f"job {ids[0]}, submitted under this key, was deleted") from None
            return Submitted([await self._payload_store.with_result(job)], replayed=True)
        found = await self._store.jobs.get_many([(tenant, job_id) for job_id in ids])
        if len(found) < len(ids):
            raise Gone("jobs of the batch submitted under this key were deleted")
        return Submitted(sorted(found, key=lambda job: job.id), replayed=True)


def _payloads_of(job: JobInsert, finished: FinishedJob) -> Iterator[str]:
    yield job.input
    if isinstance(finished.outcome, Succeeded):
        yield finished.outcome.result
    if finished.report is not None:
        yield from (step.result for step in finished.report.steps if step.result is not None)


def _total_bytes(jobs: Sequence[JobInsert]) -> int:
    return sum(bytes_of(job.input) for job in jobs)


def _all_as_submitted(jobs: Sequence[JobInsert]) -> list[Job]:
    return [as_submitted(job) for job in jobs]


async def _off_loop(items: Sequence[Any], work: Callable[..., T], *arguments: Any) -> T:
    """Call `work`, in a thread if there are many items."""
    if len(items) <= MAX_ON_LOOP:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)
