"""The parts of a store that hold texts of users and handlers, encrypted under a keyring.

Each part wraps the same part of the inner store: it encrypts arguments and decrypts results. Verbs
that carry no such text are the inner part's own bound methods, so they cost no extra call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coatcheck.crypto.encryption import Keyring
from coatcheck.errors import KeyMissing
from coatcheck.model.artifact import Artifact
from coatcheck.model.audit import AuditEntry
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Failure, Job, JobInsert, Lease
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Released
from coatcheck.model.payload import is_reference
from coatcheck.model.record import Record
from coatcheck.model.schedule import Schedule
from coatcheck.model.share import HeldSlots
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.encrypted.values import ValueCipher
from coatcheck.store.files import FileStore
from coatcheck.store.jobs import (
    NO_COPIES,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
    JobStore,
)
from coatcheck.store.records import RecordStore
from coatcheck.store.schedules import DueSchedules, ScheduleFiring, ScheduleStore
from coatcheck.store.workers import (
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    Report,
    Settlement,
    WorkerStore,
)

# A claimed job whose key is missing goes back to its queue for this long.
MISSING_KEY_DELAY_MS = 60_000


class EncryptedJobs:
    """The verbs on jobs, with payloads, errors and messages encrypted."""

    def __init__(self, jobs: JobStore, keys: Keyring) -> None:
        self._jobs = jobs
        self._keys = keys
        self._cipher = ValueCipher(keys)
        self.find_submission = jobs.find_submission
        self.delete = jobs.delete

    async def submit(
        self,
        job: JobInsert,
        now: int,
        idempotency: Idempotency | None = None,
        epoch: int | None = None,
    ) -> ExistingSubmission | None:
        """Write a job."""
        return await self._jobs.submit(self._cipher.encrypt_job(job), now, idempotency, epoch)

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Write a job in its terminal state."""
        report = finished.report
        encrypted = finished._replace(
            outcome=self._cipher.encrypt_terminal(finished.outcome, job.tenant),
            report=None if report is None else self._cipher.encrypt_report(report, job.tenant),
            records=tuple(map(self._cipher.encrypt_record, finished.records)),
        )
        await self._jobs.submit_finished(self._cipher.encrypt_job(job), encrypted, now, epoch)

    async def submit_batch(
        self, jobs: Sequence[JobInsert], now: int, idempotency: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Write many jobs, all or none."""
        encrypted = [self._cipher.encrypt_job(job) for job in jobs]
        return await self._jobs.submit_batch(encrypted, now, idempotency)

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job."""
        return self._cipher.decrypt_job(await self._jobs.get(tenant, job_id))

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read the existing jobs among many."""
        return [self._cipher.decrypt_job(job) for job in await self._jobs.get_many(ids)]

    async def list_jobs(self, page: JobFilter) -> list[Job]:
        """List jobs."""
        return [self._cipher.decrypt_job(job) for job in await self._jobs.list_jobs(page)]

    async def get_input(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        return self._keys.decrypt(await self._jobs.get_input(tenant, job_id), tenant)

    async def list_events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """List a job's events."""
        found = await self._jobs.list_events(tenant, job_id, after, limit)
        return [self._cipher.decrypt_event(event, tenant) for event in found]

    async def list_steps(self, tenant: str, job_id: str) -> list[Step]:
        """List a job's steps."""
        found = await self._jobs.list_steps(tenant, job_id)
        return [self._cipher.decrypt_step(step, tenant) for step in found]

    async def list_sent_events(self, tenant: str, job_id: str) -> list[SentEvent]:
        """List the events that were sent to a job."""
        return [
            replace(event, data=self._keys.decrypt(event.data, tenant))
            for event in await self._jobs.list_sent_events(tenant, job_id)
        ]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Request the cancellation of a job."""
        return self._cipher.decrypt_job(await self._jobs.cancel(tenant, job_id, now))

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
        """Send an event. Equal data encrypts equally, so the inner store can compare repeats."""
        context = f"{job_id}\0{name}\0{key}"
        encrypted = (
            data if is_reference(data) else self._keys.encrypt_deterministic(data, tenant, context)
        )
        return self._cipher.decrypt_job(
            await self._jobs.send_event(tenant, job_id, name, encrypted, now, key, most)
        )

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a failed or cancelled job again."""
        return self._cipher.decrypt_job(await self._jobs.resume(tenant, job_id, now))

    async def fork(
        self,
        source: str,
        before: int,
        job: JobInsert,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Write a new job with completed steps of another."""
        await self._jobs.fork(source, before, self._cipher.encrypt_job(job), now, copies)


class EncryptedWorkers:
    """The verbs of workers, with inputs, reports and outcomes encrypted."""

    def __init__(self, workers: WorkerStore, keys: Keyring) -> None:
        self._workers = workers
        self._keys = keys
        self._cipher = ValueCipher(keys)
        self.register_worker = workers.register_worker
        self.heartbeat = workers.heartbeat
        self.list_workers = workers.list_workers
        self.remove_worker = workers.remove_worker
        self.get_limit_usage = workers.get_limit_usage
        self.list_held_jobs = workers.list_held_jobs

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
        """Claim due jobs. Release a job whose key is missing."""
        claimed = await self._workers.claim(worker_id, kinds, limit, now, limits, versions, held)
        claims, unreadable = [], []
        for claim in claimed.claims:
            try:
                text = self._keys.decrypt(claim.input, claim.lease.tenant)
            except KeyMissing as error:
                failure = Failure(error.code, str(error), retryable=True)
                unreadable.append(Settlement(claim.lease, Released(MISSING_KEY_DELAY_MS, failure)))
            else:
                claims.append(claim if text is claim.input else claim._replace(input=text))
        if unreadable:
            await self._workers.settle(unreadable, now)
        return claimed._replace(claims=claims)

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write a report of a running job."""
        encrypted = self._cipher.encrypt_report(report, lease.tenant)
        return await self._workers.report(lease, encrypted, now)

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """Settle attempts."""
        encrypted = [
            Settlement(
                lease,
                self._cipher.encrypt_outcome(outcome, lease.tenant),
                None if report is None else self._cipher.encrypt_report(report, lease.tenant),
            )
            for lease, outcome, report in settlements
        ]
        return await self._workers.settle(encrypted, now)


class EncryptedFiles:
    """The verbs on files, with artifacts in rows encrypted. Blobs: `blobs/encrypted.py`."""

    def __init__(self, files: FileStore, keys: Keyring) -> None:
        self._files = files
        self._keys = keys
        self.reserve_blob = files.reserve_blob
        self.start_blob_removal = files.start_blob_removal
        self.finish_blob_removal = files.finish_blob_removal
        self.put_upload = files.put_upload
        self.get_upload = files.get_upload
        self.list_uploads = files.list_uploads
        self.delete_upload = files.delete_upload

    async def record_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Record an artifact of a running job."""
        encrypted = None if content is None else self._keys.encrypt(content, lease.tenant)
        return await self._files.record_artifact(lease, artifact, encrypted)

    async def get_artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read the content of an artifact that is stored in its row."""
        content = await self._files.get_artifact_content(tenant, job_id, name)
        return None if content is None else self._keys.decrypt(content, tenant)


class EncryptedRecords:
    """The verbs on records, with values encrypted."""

    def __init__(self, records: RecordStore, keys: Keyring) -> None:
        self._records = records
        self._cipher = ValueCipher(keys)
        self.count_records = records.count_records
        self.delete_record = records.delete_record

    async def put_record(
        self,
        record: Record,
        expected_version: int | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> Record | None:
        """Write a record."""
        encrypted = self._cipher.encrypt_record(record)
        written = await self._records.put_record(encrypted, expected_version, audit=audit)
        return None if written is None else replace(written, value=record.value)

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a record."""
        found = await self._records.get_record(tenant, collection, key, now)
        return None if found is None else self._cipher.decrypt_record(found)

    async def list_records(
        self,
        tenant: str,
        collection: str,
        now: int,
        after: str = "",
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        """List the records of a collection."""
        found = await self._records.list_records(tenant, collection, now, after, limit, offset)
        return [self._cipher.decrypt_record(record) for record in found]


class EncryptedSchedules:
    """The verbs on schedules, with inputs encrypted."""

    def __init__(self, schedules: ScheduleStore, keys: Keyring) -> None:
        self._schedules = schedules
        self._cipher = ValueCipher(keys)
        self.delete_schedule = schedules.delete_schedule

    async def put_schedule(
        self, schedule: Schedule, replaces: str | None, *, audit: AuditEntry | None = None
    ) -> bool:
        """Write a schedule."""
        encrypted = self._cipher.encrypt_schedule(schedule)
        return await self._schedules.put_schedule(encrypted, replaces, audit=audit)

    async def get_schedule(self, tenant: str, name: str) -> Schedule | None:
        """Read a schedule."""
        found = await self._schedules.get_schedule(tenant, name)
        return None if found is None else self._cipher.decrypt_schedule(found)

    async def list_schedules(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[Schedule]:
        """List schedules."""
        found = await self._schedules.list_schedules(tenant, after, limit)
        return [self._cipher.decrypt_schedule(schedule) for schedule in found]

    async def list_due_schedules(self, kinds: Sequence[str], now: int, limit: int) -> DueSchedules:
        """List the due schedules."""
        found = await self._schedules.list_due_schedules(kinds, now, limit)
        return found._replace(due=[self._cipher.decrypt_schedule(each) for each in found.due])

    async def fire_schedule(self, firing: ScheduleFiring, now: int) -> int | None:
        """Insert the jobs and advance the schedule."""
        jobs = tuple(self._cipher.encrypt_job(job) for job in firing.jobs)
        return await self._schedules.fire_schedule(firing._replace(jobs=jobs), now)
