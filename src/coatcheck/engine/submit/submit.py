"""Handing jobs in: from what was asked for to rows, one at a time or many, once under a key.

Whatever a job brings along is seen to before it is written: uploads are taken over with it, its
webhook is checked, a large input goes to the blob store. One that turns out to be a repetition
leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from coatcheck.engine.submit.submission import Submission, prepare_all, prepare_with_uploads
from coatcheck.errors import Gone, InvalidInput, NotFound
from coatcheck.ids import ulids_from
from coatcheck.model.job import Job, JobInsert, Lease
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import BATCH_LIMIT, ExistingSubmission, FinishedJob

if TYPE_CHECKING:
    from coatcheck.engine.auth import Admission
    from coatcheck.engine.engine import Engine
    from coatcheck.engine.submit.idempotency import IdempotencyKey

# More jobs than this are dealt with in a thread: the loop has others to answer.
DONE_AT_ONCE = 50

T = TypeVar("T")


class Submitted(NamedTuple):
    """Jobs as they stand, and whether an earlier request under the same key has made them."""

    jobs: list[Job]
    replayed: bool


async def submit(
    engine: Engine, submission: Submission, once: IdempotencyKey | None
) -> tuple[JobInsert, ExistingSubmission | None]:
    """Check a job and make it durable, unless another holds its key: then return that one too."""
    if submission.queue is not None and submission.admission is not None:
        await engine.queue_limit.check(submission.tenant, [submission.queue])
    now = engine.clock.now()
    job_id = submission.job_id or engine.new_id()
    job, uploads = prepare_with_uploads(submission, engine.kinds, job_id, now)
    if uploads:
        [job] = await engine.uploads.with_uploads([job], [uploads])
    if submission.webhook is not None:
        await _ensure_signing_secret(engine, [submission])
        callback = await engine.webhooks.resolve_callback(submission.webhook, submission.tenant)
        job = job._replace(webhook=callback)
    if engine.payload_store.is_large(job.input):
        [job] = await engine.payload_store.offload_inputs([job])
    earlier = await engine.admission_control.write(job, now, once, submission.admission)
    if earlier is None:
        engine.metrics.submitted(job.kind)
    else:
        await engine.payload_store.drop_inputs([job])
    return job, earlier


async def submit_finished(
    engine: Engine, job: JobInsert, ended: FinishedJob, admission: Admission | None
) -> None:
    """Make a job durable that has ended, and count all that has become of it."""
    if any(map(engine.payload_store.is_large, _payloads_of(job, ended))):
        raise ValueError(f"job {job.id} has a payload that is kept apart: it has to be submitted")
    now = engine.clock.now()
    await engine.admission_control.write_ended(job, ended, now, admission)
    engine.metrics.submitted(job.kind)
    engine.metrics.started(job.kind, ended.began_at - job.run_at)
    ran_ms = max(0, now - ended.began_at)
    engine.metrics.settled(job.kind, job.queue, ended.outcome, last=True, ran_ms=ran_ms)
    if engine.resources.in_use:
        engine.resources.release(Lease(job.tenant, job.id, 1))


def _payloads_of(job: JobInsert, ended: FinishedJob) -> Iterator[str]:
    yield job.input
    if isinstance(ended.outcome, Succeeded):
        yield ended.outcome.result
    if ended.report is not None:
        yield from (step.result for step in ended.report.steps if step.result is not None)


async def submit_batch(
    engine: Engine,
    submissions: Sequence[Submission],
    once: IdempotencyKey | None,
    ids: Sequence[str] | None = None,
    *,
    is_family: bool = False,
) -> tuple[list[JobInsert], ExistingSubmission | None]:
    """Check many and make all of them durable, or none. Of a family the last is the parent."""
    if len(submissions) > BATCH_LIMIT:
        raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs")
    if submissions and submissions[0].admission is not None:
        queues = {each.queue for each in submissions}
        await engine.queue_limit.check(submissions[0].tenant, queues)
    now = engine.clock.now()
    ids = ids or engine.new_id.consecutive(len(submissions))
    prepared = await apart(submissions, prepare_all, submissions, engine.kinds, ids, now)
    jobs = [each.job for each in prepared]
    if is_family:
        parent = jobs[-1].id
        jobs[:-1] = [job._replace(terms=job.terms._replace(parent=parent)) for job in jobs[:-1]]
    if any(each.uploads for each in prepared):
        jobs = await engine.uploads.with_uploads(jobs, [each.uploads for each in prepared])
    if any(asked.webhook is not None for asked in submissions):
        await _ensure_signing_secret(engine, submissions)
        asked_for = [(asked.webhook, asked.tenant) for asked in submissions]
        found = await engine.webhooks.resolve_callbacks(asked_for)
        jobs = [job._replace(webhook=own) for job, own in zip(jobs, found, strict=True)]
    if any(engine.payload_store.is_large(job.input) for job in jobs):
        jobs = await engine.payload_store.offload_inputs(jobs)
    admission = submissions[0].admission if submissions else None
    earlier = await engine.admission_control.write_batch(jobs, now, once, admission)
    if earlier is None:
        for kind, count in Counter([job.kind for job in jobs]).items():
            engine.metrics.submitted(kind, count)
    else:
        await engine.payload_store.drop_inputs(jobs)
    return jobs, earlier


async def _ensure_signing_secret(engine: Engine, submissions: Sequence[Submission]) -> None:
    """See that jobs' own webhooks can be signed, but for those that their surface words itself."""
    for asked in submissions:
        wording = engine.kinds[asked.kind].webhook_format
        if asked.webhook is not None and (wording is None or wording.surface != asked.surface):
            await engine.webhooks.ensure_signing_secret(asked.tenant)
            return


async def replayed(
    engine: Engine, earlier: ExistingSubmission, once: IdempotencyKey, tenant: str
) -> Submitted:
    """Answer a request with what an earlier one under its key has made; raises KeyReused, Gone."""
    once.check(earlier.fingerprint)
    ids = ulids_from(earlier.first_id, earlier.jobs)
    if len(ids) == 1:
        try:
            return Submitted([await engine.get(ids[0], tenant)], replayed=True)
        except NotFound:
            raise Gone(f"job {ids[0]}, submitted under this key, is gone") from None
    found = await engine.store.get_many([(tenant, job_id) for job_id in ids])
    if len(found) < len(ids):
        raise Gone("jobs of the batch submitted under this key are gone")
    return Submitted(sorted(found, key=lambda job: job.id), replayed=True)


async def apart(what: Sequence[Any], work: Callable[..., T], *arguments: Any) -> T:
    """Do something with each of many things: in a thread, while the loop answers others."""
    if len(what) <= DONE_AT_ONCE:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)
