"""Fork jobs: submit a new job that starts from a copy of another job's checkpoints.

A fork under an idempotency key happens once. The id of the new job is recorded under the key first,
and forking to an id that exists changes nothing. A crash in between leaves a key without a job; the
fork is made when the request is repeated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.clock import Clock
from coatcheck.engine.payloads.large_steps import copy_large_payloads
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission, prepare_with_uploads
from coatcheck.errors import Gone, InputGone, InvalidPayload, NotFound
from coatcheck.model.access import Quotas
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.kind import Kind
from coatcheck.model.record import Record
from coatcheck.model.step import Op, Step, StepState
from coatcheck.model.usage import bytes_of
from coatcheck.store.base import Store

if TYPE_CHECKING:
    from coatcheck.engine.maintenance.metrics import Metrics
    from coatcheck.engine.payloads.payloads import PayloadStore
    from coatcheck.engine.payloads.uploads import Uploads
    from coatcheck.engine.submit.quotas import QuotaTracker

COLLECTION = "forks"
NO_OTHER_INPUT = "the input of this kind is set by its surface: leave it out"


@dataclass(frozen=True, slots=True)
class Fork:
    """A request to fork a job.

    `from_step` is a step's index or its name. `input` is a JSON text, None for the source's input.
    """

    source: str
    from_step: int | str
    input: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    quotas: Quotas | None = None


class Forked(NamedTuple):
    """A forked job; `replayed` if an earlier request under the same key made it."""

    job: Job
    replayed: bool


class Forker:
    """Forks of jobs on one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kinds: Mapping[str, Kind],
        new_id: Callable[[], str],
        *,
        quotas: QuotaTracker,
        payload_store: PayloadStore,
        uploads: Uploads,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._clock = clock
        self._kinds = kinds
        self._new_id = new_id
        self._quotas = quotas
        self._payload_store = payload_store
        self._uploads = uploads
        self._metrics = metrics

    async def fork(self, tenant: str, fork: Fork, key: IdempotencyKey | None) -> Forked:
        """Submit a job that starts from another job's checkpoints before `fork.from_step`."""
        new_id = None if key is None else await self._recorded_id(tenant, key)
        if new_id is not None:
            try:
                job = await self._store.jobs.get(tenant, new_id)
                return Forked(await self._payload_store.with_result(job), replayed=True)
            except Gone:
                raise Gone(f"job {new_id}, forked under this key, was deleted") from None
            except NotFound:
                pass  # the request that recorded the key did not reach the fork: make it now
        source = await self._store.jobs.get(tenant, fork.source)
        before, job_insert = await self._prepare(source, fork, new_id or self._new_id())
        if fork.quotas is not None:
            await self._quotas.reserve(tenant, fork.quotas, 1, bytes_of(job_insert.input))
        if key is not None and new_id is None:
            job_insert = job_insert._replace(id=await self._record_id(tenant, key, job_insert.id))
        kind = self._kinds[job_insert.kind]
        if kind.fork_input is not None:
            new_input = kind.fork_input(
                job_insert.input, source, job_insert.id, fork.input is not None
            )
            job_insert = job_insert._replace(input=new_input)
        [job_insert] = await self._payload_store.offload_inputs([job_insert])
        copies = await self._copy_payloads(source, before, job_insert)
        await self._store.jobs.fork(source.id, before, job_insert, self._clock.now(), copies)
        self._metrics.submitted(job_insert.kind)
        return Forked(await self._store.jobs.get(tenant, job_insert.id), replayed=False)

    async def _prepare(self, source: Job, fork: Fork, new_id: str) -> tuple[int, JobInsert]:
        """Check a fork; return the number of the first step that it runs itself, and its row."""
        before = _find_step(
            await self._store.jobs.list_steps(source.tenant, source.id), fork.from_step
        )
        input_ = fork.input
        if input_ is not None and source.kind in self._kinds and self._kinds[source.kind].internal:
            raise InvalidPayload(NO_OTHER_INPUT, [("/input", NO_OTHER_INPUT)])
        if input_ is None:
            stored = await self._store.jobs.get_input(source.tenant, source.id)
            input_ = await self._payload_store.read(stored)
        submission = Submission(
            kind=source.kind,
            input=input_,
            queue=source.queue,
            priority=source.priority,
            tenant=source.tenant,
            surface=source.surface,  # decides who may read the job
            correlation_id=fork.correlation_id,
            traceparent=fork.traceparent,
            trusted=fork.input is None,
        )
        job, uploads = prepare_with_uploads(submission, self._kinds, new_id, self._clock.now())
        terms = source.terms._replace(deadline_at=job.terms.deadline_at, parent=None)
        labels = json.dumps(dict(source.labels))
        job = job._replace(terms=terms, forked_from=source.id, labels=labels)
        if fork.input is None:
            job = _limit_input_lifetime(job, source, self._kinds[source.kind])
        if fork.input is not None and uploads:
            [job] = await self._uploads.with_uploads([job], [uploads])
        elif uploads:
            job = await self._uploads.with_upload_copies(source.id, job)
        return before, job

    async def _copy_payloads(self, source: Job, before: int, job: JobInsert) -> dict[str, str]:
        """Copy the blobs of the steps and events that a fork starts with."""
        steps = await self._store.jobs.list_steps(source.tenant, source.id)
        done = [step for step in steps if step.seq < before and step.state is StepState.SUCCEEDED]
        received = Counter(step.id.name for step in done if step.id.op is Op.EVENT)
        sent = await self._store.jobs.list_sent_events(source.tenant, source.id) if received else ()
        messages = [message for message in sent if message.number < received[message.name]]
        return await copy_large_payloads(self._payload_store, job, done, messages)

    async def _recorded_id(self, tenant: str, key: IdempotencyKey) -> str | None:
        """Return the id of the job that is forked under a key, if one is recorded."""
        found = await self._store.records.get_record(tenant, COLLECTION, key.key, self._clock.now())
        if found is None:
            return None
        value = json.loads(found.value)
        key.check(value["fingerprint"])
        return str(value["job"])

    async def _record_id(self, tenant: str, key: IdempotencyKey, new_id: str) -> str:
        """Record the id of the job to fork under a key; return the recorded one if there is one."""
        stored = key.stored(self._clock.now())
        value = json.dumps({"job": new_id, "fingerprint": stored.fingerprint})
        now, expires_at = self._clock.now(), stored.expires_at
        record = Record(tenant, COLLECTION, stored.key, value, 0, now, expires_at)
        if await self._store.records.put_record(record, expected_version=0) is not None:
            return new_id
        return await self._recorded_id(tenant, key) or new_id


def _limit_input_lifetime(job: JobInsert, source: Job, kind: Kind) -> JobInsert:
    """Return a fork that keeps the copied input no longer than its source may; raises InputGone.

    Otherwise forks of forks would keep an input forever.
    """
    if kind.payload_ttl_ms is None:
        return job
    until = source.created_at + kind.payload_ttl_ms
    if source.forked_from is not None and source.terms.deadline_at is not None:
        until = min(until, source.terms.deadline_at)  # a fork has no other deadline
    if until <= job.created_at:
        raise InputGone(f"the input of job {source.id} is not kept any longer")
    terms = job.terms._replace(deadline_at=min(until, job.terms.deadline_at or until))
    return job._replace(terms=terms, input_until=min(until, job.input_until or 0))


def _find_step(steps: Sequence[Step], wanted: int | str) -> int:
    """Return the number of a step, by index or name; index 0 is valid without any steps."""
    if isinstance(wanted, str):
        for step in steps:
            if step.id.name == wanted:
                return step.seq
        raise _unknown_step("the job has no step of this name")
    if 0 <= wanted < len(steps):
        return steps[wanted].seq
    if wanted == 0:
        return 0
    raise _unknown_step(f"the job has {len(steps)} step(s), counted from 0")


def _unknown_step(why: str) -> InvalidPayload:
    return InvalidPayload(f"there is no such step to fork from: {why}", [("/from_step", why)])
