"""Going on with jobs that have ended, and beginning others where one of them was.

- A *resume* queues a job again that failed or was cancelled; it goes on from its last checkpoint.
- A *fork* is a new job that begins with the checkpoints of another, up to one of its steps.

A fork under an idempotency key happens once: the id of the new job is written down under the key
first, and forking to an id that is there already changes nothing. So a crash in between leaves a
key whose fork is made when the request is repeated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.engine.bulk import BulkResult, Only, for_each
from coatcheck.engine.payloads.large_steps import copy_large_payloads
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission, prepare_with_uploads
from coatcheck.errors import Gone, InputGone, InvalidInput, InvalidPayload, NotFound
from coatcheck.model.access import Quotas
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.kind import Kind
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.model.step import Op, Step, StepState
from coatcheck.model.usage import bytes_of
from coatcheck.store.base import JobFilter

if TYPE_CHECKING:
    from coatcheck.engine.engine import Engine

RESUMABLE = (State.FAILED, State.CANCELLED)

FORKS = "forks"
NO_OTHER_INPUT = "jobs of this kind get their input from their surface: leave it out"


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork as somebody asks for it. `from_step` is a step's index or its name; `input` a JSON
    text, None for the input of the original.
    """

    source: str
    from_step: int | str
    input: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    quotas: Quotas | None = None


class Forked(NamedTuple):
    """A fork as it stands, and whether an earlier request under the same key has made it."""

    job: Job
    replayed: bool


class Resumed(NamedTuple):
    """A job as it stands, and whether it was resumed."""

    job: Job
    changed: bool


async def resume(engine: Engine, tenant: str, job_id: str) -> Resumed:
    """Queue a job again that failed or was cancelled; any other is left as it is."""
    before = await engine.store.get(tenant, job_id)
    job = await engine.store.resume(tenant, before.id, engine.clock.now())
    return Resumed(await engine.payload_store.with_result(job), before.state in RESUMABLE)


async def resume_some(engine: Engine, which: JobFilter, only: Only, *, dry_run: bool) -> BulkResult:
    """Resume the newest jobs that a filter finds, `which.limit` at most; or only count them."""
    if which.state not in RESUMABLE:
        raise InvalidInput("only jobs that failed or were cancelled can be resumed")

    async def resume_one(job_id: str) -> bool:
        try:
            return (await resume(engine, which.tenant, job_id)).changed
        except (NotFound, InputGone):
            return False  # deleted since, or its input is

    return await for_each(engine, which, only, resume_one, dry_run=dry_run)


async def fork(engine: Engine, tenant: str, asked: Fork, once: IdempotencyKey | None) -> Forked:
    """Make a new job that begins with the steps of another."""
    new_id = None if once is None else await _noted(engine, tenant, once)
    if new_id is not None:
        try:
            return Forked(await engine.get(new_id, tenant), replayed=True)
        except Gone:
            raise Gone(f"job {new_id}, forked under this key, is gone") from None
        except NotFound:
            pass  # whoever noted the key did not come to the fork: that is made up for
    source = await engine.store.get(tenant, asked.source)
    before, job = await _prepare(engine, source, asked, new_id or engine.new_id())
    if asked.quotas is not None:
        await engine.quotas.reserve(tenant, asked.quotas, 1, bytes_of(job.input))
    if once is not None and new_id is None:
        job = job._replace(id=await _note(engine, tenant, once, job.id))
    kind = engine.kinds[job.kind]
    if kind.fork_input is not None:
        given = asked.input is not None
        job = job._replace(input=kind.fork_input(job.input, source, job.id, given))
    [job] = await engine.payload_store.offload_inputs([job])  # a large one is a blob of its own
    copies = await _copies(engine, source, before, job)
    await engine.store.fork(source.id, before, job, engine.clock.now(), copies)
    engine.metrics.submitted(job.kind)
    return Forked(await engine.store.get(tenant, job.id), replayed=False)


async def _copies(engine: Engine, source: Job, before: int, job: JobInsert) -> dict[str, str]:
    """Copy what is kept apart of the history that a fork begins with."""
    steps = await engine.store.steps(source.tenant, source.id)
    taken = [step for step in steps if step.seq < before]
    done = [step for step in taken if step.state is StepState.SUCCEEDED]
    events = Counter(step.id.name for step in done if step.id.op is Op.EVENT)
    sent = await engine.store.messages(source.tenant, source.id) if events else ()
    messages = [message for message in sent if message.number < events[message.name]]
    return await copy_large_payloads(engine.payload_store, job, done, messages)


async def _noted(engine: Engine, tenant: str, once: IdempotencyKey) -> str | None:
    """Return which job is forked under a key, if that is noted."""
    found = await engine.store.get_record(tenant, FORKS, once.key, engine.clock.now())
    if found is None:
        return None
    held = json.loads(found.value)
    once.check(held["fingerprint"])
    return str(held["job"])


async def _note(engine: Engine, tenant: str, once: IdempotencyKey, new_id: str) -> str:
    """Note which job is forked under a key, unless another one is by now; return that one then."""
    held = once.held(engine.clock.now())
    value = json.dumps({"job": new_id, "fingerprint": held.fingerprint})
    mine = Record(tenant, FORKS, held.key, value, 0, engine.clock.now(), held.expires_at)
    if await engine.store.put_record(mine, expected_version=0) is not None:
        return new_id
    return await _noted(engine, tenant, once) or new_id


async def _prepare(engine: Engine, source: Job, asked: Fork, new_id: str) -> tuple[int, JobInsert]:
    """Check a fork; return the number of the first step it takes itself, and the job."""
    before = _find(await engine.store.steps(source.tenant, source.id), asked.from_step)
    input_ = asked.input
    if input_ is not None and source.kind in engine.kinds and engine.kinds[source.kind].internal:
        raise InvalidPayload(NO_OTHER_INPUT, [("/input", NO_OTHER_INPUT)])
    if input_ is None:
        input_ = await engine.payload_store.read(
            await engine.store.input_of(source.tenant, source.id)
        )
    submission = Submission(
        kind=source.kind,
        input=input_,
        queue=source.queue,
        priority=source.priority,
        tenant=source.tenant,
        surface=source.surface,  # which says who may read it, like its source
        correlation_id=asked.correlation_id,
        traceparent=asked.traceparent,
        trusted=asked.input is None,
    )
    job, uploads = prepare_with_uploads(submission, engine.kinds, new_id, engine.clock.now())
    terms = source.terms._replace(deadline_at=job.terms.deadline_at, parent=None)
    job = job._replace(terms=terms, forked_from=source.id, labels=json.dumps(dict(source.labels)))
    if asked.input is None:
        job = _kept_no_longer(job, source, engine.kinds[source.kind])
    if asked.input is not None and uploads:
        [job] = await engine.uploads.with_uploads([job], [uploads])
    elif uploads:
        job = await engine.uploads.with_upload_copies(source.id, job)
    return before, job


def _kept_no_longer(job: JobInsert, source: Job, kind: Kind) -> JobInsert:
    """Return a fork that keeps the input it takes over no longer than its source may: else forks of
    forks would keep it for good. Raises InputGone.
    """
    if kind.payload_ttl_ms is None:
        return job
    until = source.created_at + kind.payload_ttl_ms
    if source.forked_from is not None and source.terms.deadline_at is not None:
        until = min(until, source.terms.deadline_at)  # a fork has no other deadline than this
    if until <= job.created_at:
        raise InputGone(f"the input of job {source.id} is not kept any longer")
    terms = job.terms._replace(deadline_at=min(until, job.terms.deadline_at or until))
    return job._replace(terms=terms, input_until=min(until, job.input_until or 0))


def _find(steps: Sequence[Step], wanted: int | str) -> int:
    """Return the number of the step that is meant; 0 is the beginning, also without any step."""
    if isinstance(wanted, str):
        for step in steps:
            if step.id.name == wanted:
                return step.seq
        raise _unknown("the job has no step of this name")
    if 0 <= wanted < len(steps):
        return steps[wanted].seq
    if wanted == 0:
        return 0
    raise _unknown(f"the job has {len(steps)} step(s), counted from 0")


def _unknown(why: str) -> InvalidPayload:
    return InvalidPayload(f"there is no such step to fork from: {why}", [("/from_step", why)])
