"""A store whose contents can only be read with a key, around any other store.

What users hand in and what handlers say is sealed on its way in and opened on its way out: inputs,
results, results and errors of steps, errors, log lines, output, progress messages, data of events,
inputs of schedules, small documents, and secrets of webhooks (`store/encrypted_secrets.py`, with or
without keys). The store below never knows. Everything it decides by stays in clear: ids, kinds,
queues, states, phases, labels, times, counts, names and keys of steps, codes of errors, addresses
of webhooks, references to blobs (whose bytes `coatcheck.blobs.encrypted` seals).

Verbs that are not named here carry nothing of that, and are the other store's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coatcheck.crypto.encryption import PREFIX, Keyring
from coatcheck.errors import KeyMissing
from coatcheck.model.artifact import Artifact
from coatcheck.model.audit import AuditEntry
from coatcheck.model.event import EventType, JobEvent, NewJobEvent
from coatcheck.model.job import Failure, Job, JobInsert, Lease, Progress
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.payload import is_reference
from coatcheck.model.record import Record
from coatcheck.model.schedule import Schedule
from coatcheck.model.share import HeldSlots
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.base import (
    NO_COPIES,
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
    Report,
    Settlement,
    Store,
)
from coatcheck.store.encrypted_secrets import EncryptedSecrets, SecretKeys
from coatcheck.store.schedules import DueSchedules, ScheduleFiring

# A job whose key is not known here goes back to its queue for so long.
WITHOUT_KEY_MS = 60_000


class EncryptedStore(EncryptedSecrets):
    """Seals what goes into another store, and opens what comes out."""

    def __init__(self, store: Store, keys: Keyring, secrets: SecretKeys | None = None) -> None:
        super().__init__(store, secrets or keys)
        self._keys = keys

    # --- handing work in and reading it

    async def submit(
        self, job: JobInsert, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> ExistingSubmission | None:
        """Make a job durable."""
        return await self._store.submit(self._seal_job(job), now, once, epoch)

    async def submit_finished(
        self, job: JobInsert, ended: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Make a job durable that has ended."""
        report = ended.report
        sealed = ended._replace(
            outcome=self._seal_end(ended.outcome, job.tenant),
            report=None if report is None else self._seal_report(report, job.tenant),
            records=tuple(map(self._seal_record, ended.records)),
        )
        await self._store.submit_finished(self._seal_job(job), sealed, now, epoch)

    async def submit_batch(
        self, jobs: Sequence[JobInsert], now: int, once: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Make many jobs durable."""
        return await self._store.submit_batch([self._seal_job(job) for job in jobs], now, once)

    async def fork(
        self,
        source: str,
        before: int,
        job: JobInsert,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Make a job durable that begins with steps of another."""
        await self._store.fork(source, before, self._seal_job(job), now, copies)

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job."""
        return self._open_job(await self._store.get(tenant, job_id))

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read those of many jobs that exist."""
        return [self._open_job(job) for job in await self._store.get_many(ids)]

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs."""
        return [self._open_job(job) for job in await self._store.list_jobs(which)]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Ask for a job to be cancelled."""
        return self._open_job(await self._store.cancel(tenant, job_id, now))

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a job again."""
        return self._open_job(await self._store.resume(tenant, job_id, now))

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
        """Send an event; the store below compares it with what was sent under the same key."""
        about = f"{job_id}\0{name}\0{key}"
        sealed = (
            data if is_reference(data) else self._keys.encrypt_deterministic(data, tenant, about)
        )
        return self._open_job(await self._store.send(tenant, job_id, name, sealed, now, key, most))

    async def input_of(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        return self._keys.decrypt(await self._store.input_of(tenant, job_id), tenant)

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """Read a job's log."""
        found = await self._store.events(tenant, job_id, after, limit)
        return [self._open_event(event, tenant) for event in found]

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps."""
        found = await self._store.steps(tenant, job_id)
        return [self._open_step(step, tenant) for step in found]

    async def messages(self, tenant: str, job_id: str) -> list[SentEvent]:
        """Read what was sent to a job."""
        return [
            replace(message, data=self._keys.decrypt(message.data, tenant))
            for message in await self._store.messages(tenant, job_id)
        ]

    # --- working

    async def claim(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit] = NO_LIMITS,
        versions: Mapping[str, str] = NO_VERSIONS,
        held: HeldSlots | None = None,
    ) -> ClaimResult:
        """Take jobs that are due; one whose key is not known here is given back."""
        claimed = await self._store.claim(worker_id, kinds, limit, now, limits, versions, held)
        claims, unread = [], []
        for claim in claimed.claims:
            try:
                text = self._keys.decrypt(claim.input, claim.lease.tenant)
            except KeyMissing as error:
                failure = Failure(error.code, str(error), retryable=True)
                unread.append(Settlement(claim.lease, Released(WITHOUT_KEY_MS, failure)))
            else:
                claims.append(claim if text is claim.input else claim._replace(input=text))
        if unread:
            await self._store.settle(unread, now)
        return claimed._replace(claims=claims)

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself."""
        return await self._store.report(lease, self._seal_report(report, lease.tenant), now)

    async def keep_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Name a file of a running job."""
        sealed = None if content is None else self._keys.encrypt(content, lease.tenant)
        return await self._store.keep_artifact(lease, artifact, sealed)

    async def artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read a file that is kept in its row."""
        content = await self._store.artifact_content(tenant, job_id, name)
        return None if content is None else self._keys.decrypt(content, tenant)

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts."""
        sealed = [
            Settlement(
                lease,
                self._seal_outcome(outcome, lease.tenant),
                None if report is None else self._seal_report(report, lease.tenant),
            )
            for lease, outcome, report in settlements
        ]
        return await self._store.settle(sealed, now)

    # --- small documents and schedules

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> Record | None:
        """Write a document."""
        sealed = self._seal_record(record)
        written = await self._store.put_record(sealed, expected_version, audit=audit)
        return None if written is None else replace(written, value=record.value)

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a document."""
        found = await self._store.get_record(tenant, collection, key, now)
        return None if found is None else self._open_record(found)

    async def list_records(
        self,
        tenant: str,
        collection: str,
        now: int,
        after: str = "",
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        """List a collection."""
        found = await self._store.list_records(tenant, collection, now, after, limit, offset)
        return [self._open_record(record) for record in found]

    async def put_schedule(
        self, schedule: Schedule, over: str | None, *, audit: AuditEntry | None = None
    ) -> bool:
        """Write a schedule."""
        text = self._encrypt(schedule.definition.input, schedule.tenant)
        return await self._store.put_schedule(_with_input(schedule, text), over, audit=audit)

    async def get_schedule(self, tenant: str, name: str) -> Schedule | None:
        """Read a schedule."""
        found = await self._store.get_schedule(tenant, name)
        return None if found is None else self._open_schedule(found)

    async def list_schedules(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[Schedule]:
        """List schedules."""
        found = await self._store.list_schedules(tenant, after, limit)
        return [self._open_schedule(schedule) for schedule in found]

    async def due_schedules(self, kinds: Sequence[str], now: int, limit: int) -> DueSchedules:
        """List schedules whose tick has come."""
        found = await self._store.due_schedules(kinds, now, limit)
        return found._replace(due=[self._open_schedule(schedule) for schedule in found.due])

    async def fire_schedule(self, firing: ScheduleFiring, now: int) -> int | None:
        """Insert jobs and move their schedule on."""
        jobs = tuple(self._seal_job(job) for job in firing.jobs)
        return await self._store.fire_schedule(firing._replace(jobs=jobs), now)

    # --- sealing

    def _encrypt(self, text: str, tenant: str) -> str:
        return text if is_reference(text) else self._keys.encrypt(text, tenant)

    def _seal_job(self, job: JobInsert) -> JobInsert:
        return job._replace(input=self._encrypt(job.input, job.tenant))

    def _seal_record(self, record: Record) -> Record:
        return replace(record, value=self._keys.encrypt(record.value, record.tenant))

    def _seal_failure(self, error: Failure, tenant: str) -> Failure:
        detail = None if error.detail is None else self._keys.encrypt(error.detail, tenant)
        return replace(error, message=self._keys.encrypt(error.message, tenant), detail=detail)

    def _seal_end(self, outcome: Succeeded | GaveUp, tenant: str) -> Succeeded | GaveUp:
        if isinstance(outcome, Succeeded):
            return Succeeded(self._encrypt(outcome.result, tenant))
        return replace(outcome, error=self._seal_failure(outcome.error, tenant))

    def _seal_outcome(self, outcome: Outcome, tenant: str) -> Outcome:
        match outcome:
            case Succeeded() | GaveUp():
                return self._seal_end(outcome, tenant)
            case Errored(error) | Released(_, error) if error is not None:
                return replace(outcome, error=self._seal_failure(error, tenant))
        return outcome

    def _seal_report(self, report: Report, tenant: str) -> Report:
        progress = report.progress
        if progress is not None and progress.message is not None:
            progress = replace(progress, message=self._keys.encrypt(progress.message, tenant))
        return report._replace(
            progress=progress,
            events=tuple(self._seal_entry(entry, tenant) for entry in report.events),
            steps=tuple(self._seal_step(step, tenant) for step in report.steps),
            children=tuple(self._seal_job(child) for child in report.children),
            files=tuple(
                file._replace(content=self._keys.encrypt(file.content, tenant))
                for file in report.files
            ),
        )

    def _seal_entry(self, entry: NewJobEvent, tenant: str) -> NewJobEvent:
        if entry.type is EventType.PROGRESS:  # the name of a phase, and nothing else
            return entry
        return NewJobEvent(entry.type, self._encrypt(entry.data, tenant))

    def _seal_step(self, step: Step, tenant: str) -> Step:
        if step.result is None and step.error is None:
            return step
        return replace(
            step,
            result=None if step.result is None else self._encrypt(step.result, tenant),
            error=None if step.error is None else self._seal_failure(step.error, tenant),
        )

    # --- opening

    def _open_failure(self, error: Failure | None, tenant: str) -> Failure | None:
        if error is None or not error.message.startswith(PREFIX):
            return error
        detail = None if error.detail is None else self._keys.decrypt_message(error.detail, tenant)
        return replace(
            error, message=self._keys.decrypt_message(error.message, tenant), detail=detail
        )

    def _open_job(self, job: Job) -> Job:
        if job.result is None and job.error is None and job.progress is None:
            return job
        return replace(
            job,
            result=None if job.result is None else self._keys.decrypt(job.result, job.tenant),
            error=self._open_failure(job.error, job.tenant),
            progress=self._open_progress(job.progress, job.tenant),
        )

    def _open_progress(self, progress: Progress | None, tenant: str) -> Progress | None:
        if progress is None or progress.message is None:
            return progress
        return replace(progress, message=self._keys.decrypt_message(progress.message, tenant))

    def _open_event(self, event: JobEvent, tenant: str) -> JobEvent:
        if event.type is EventType.PROGRESS and PREFIX in event.data:
            told = json.loads(event.data)
            if told.get("message") is not None:
                told["message"] = self._keys.decrypt_message(told["message"], tenant)
            return replace(event, data=json.dumps(told))
        if event.data.startswith(PREFIX):
            return replace(event, data=self._keys.decrypt(event.data, tenant))
        return event

    def _open_step(self, step: Step, tenant: str) -> Step:
        if step.result is None and step.error is None:
            return step
        return replace(
            step,
            result=None if step.result is None else self._keys.decrypt(step.result, tenant),
            error=self._open_failure(step.error, tenant),
        )

    def _open_record(self, record: Record) -> Record:
        return replace(record, value=self._keys.decrypt(record.value, record.tenant))

    def _open_schedule(self, schedule: Schedule) -> Schedule:
        text = self._keys.decrypt(schedule.definition.input, schedule.tenant)
        return _with_input(schedule, text)


def _with_input(schedule: Schedule, text: str) -> Schedule:
    return replace(schedule, definition=replace(schedule.definition, input=text))
