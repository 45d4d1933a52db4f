"""The jobs part of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from coatcheck.errors import Gone, InputGone, InvalidInput, NotFound
from coatcheck.ids import UlidGenerator, is_ulid
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.jobs import (
    BATCH_LIMIT,
    NO_COPIES,
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
)
from coatcheck.store.shared.rows import read_event, read_job, read_step
from coatcheck.store.sqlite.access import check_epoch
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.list_query import list_query
from coatcheck.store.sqlite.operations import batches, bulk_insert, transitions
from coatcheck.store.sqlite.operations import jobs as job_operations

# Up to this many jobs are read inline, on the event loop.
INLINE_JOBS = 4


class SQLiteJobs:
    """The verbs on jobs."""

    def __init__(self, writer: Writer, reader: Reader, new_id: UlidGenerator) -> None:
        self._writer = writer
        self._reader = reader
        self._new_id = new_id

    async def submit(
        self,
        job: JobInsert,
        now: int,
        idempotency: Idempotency | None = None,
        epoch: int | None = None,
    ) -> ExistingSubmission | None:
        """Write a job."""

        def submit(tx: Transaction) -> ExistingSubmission | None:
            if epoch is not None:
                check_epoch(tx, epoch)
            if idempotency is not None:
                return job_operations.submit_once(tx, (job,), now, idempotency)
            job_operations.submit(tx, job, now)
            return None

        merges = None
        if idempotency is None and bulk_insert.can_be_merged(job):
            merges = bulk_insert.PendingSubmit(job, now, epoch)
        return await self._writer.write(submit, Urgency.SUBMIT, merges)

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Write a job in its terminal state."""

        def submit(tx: Transaction) -> None:
            if epoch is not None:
                check_epoch(tx, epoch)
            job_operations.submit_finished(tx, job, finished, now)

        await self._writer.write(submit, Urgency.SUBMIT)

    async def submit_batch(
        self, jobs: Sequence[JobInsert], now: int, idempotency: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Write many jobs, all or none."""
        if len(jobs) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs, not {len(jobs):,}")
        if not jobs:
            return None
        # A taken public id rejects the whole batch, which therefore has to be one transaction.
        if len(jobs) > batches.SLICE and all(job.public_id is None for job in jobs):
            return await batches.submit(self._writer, self._new_id(), jobs, now, idempotency)
        if idempotency is None:
            await self._writer.write(
                lambda tx: job_operations.submit_all(tx, jobs, now), Urgency.BULK
            )
            return None
        return await self._writer.write(
            lambda tx: job_operations.submit_once(tx, jobs, now, idempotency), Urgency.BULK
        )

    async def find_submission(self, tenant: str, key: str, now: int) -> ExistingSubmission | None:
        """Find the submission under an idempotency key."""
        row = await self._reader.one_inline(SQL.key, (tenant, key, now))
        return None if row is None else ExistingSubmission(*row)

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id."""
        sql = SQL.job_by_id if is_ulid(job_id) else SQL.job_by_public_id
        row, tombstone = await self._reader.read_inline(
            lambda db: (
                _fetch_one(db, sql, (tenant, job_id)),
                _fetch_one(db, SQL.tombstone, (tenant, job_id)),
            )
        )
        if row is not None:
            return read_job(row)
        if tombstone is not None:
            raise Gone(f"job {job_id} is gone: it was deleted, or its retention has passed")
        raise NotFound(f"there is no job {job_id}")

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read the existing jobs among many."""
        values = (json.dumps(ids),)
        read = self._reader.read_inline if len(ids) <= INLINE_JOBS else self._reader.read
        rows = await read(lambda db: db.execute(SQL.jobs_by_ids, values).fetchall())
        return [read_job(row) for row in rows]

    async def list_jobs(self, page: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        sql, values = list_query(page)
        rows = await self._reader.all(sql, values)
        return [read_job(row) for row in rows]

    async def get_input(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        job = await self.get(tenant, job_id)
        row = await self._reader.one(SQL.payload, (tenant, job.id, "input"))
        if row is None:
            raise InputGone(f"the input of job {job_id} is gone")
        return str(row[0])

    async def list_events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """List a job's events."""
        rows = await self._reader.all(SQL.events_after, (tenant, job_id, after, limit))
        return [read_event(row) for row in rows]

    async def list_steps(self, tenant: str, job_id: str) -> list[Step]:
        """List a job's steps."""
        rows = await self._reader.all(SQL.steps_of, (tenant, job_id))
        return [read_step(row) for row in rows]

    async def list_sent_events(self, tenant: str, job_id: str) -> list[SentEvent]:
        """List the events that were sent to a job."""
        rows = await self._reader.all(SQL.messages_of, (tenant, job_id))
        return [SentEvent(*row) for row in rows]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Request the cancellation of a job."""
        job = await self.get(tenant, job_id)

        def cancel(tx: Transaction) -> None:
            if transitions.cancel(tx, tenant, job.id, now):
                transitions.cascade(tx, tenant, job.id, now)

        await self._writer.write(cancel, Urgency.SUBMIT)
        return await self.get(tenant, job.id)

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
        """Send an event to an unfinished job."""
        job = await self.get(tenant, job_id)
        await self._writer.write(
            lambda tx: job_operations.send(tx, tenant, job.id, name, data, now, key, most),
            Urgency.SUBMIT,
        )
        return await self.get(tenant, job.id)

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a failed or cancelled job again."""
        job = await self.get(tenant, job_id)
        key = (tenant, job.id)

        def resume(tx: Transaction) -> Any:
            return tx.one(SQL.job_by_id, key) if job_operations.resume(tx, *key, now) else None

        row = await self._writer.write(resume, Urgency.SUBMIT)
        return await self.get(*key) if row is None else read_job(row)

    async def fork(
        self,
        source: str,
        before: int,
        job: JobInsert,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Write a new job with completed steps of another."""
        await self._writer.write(
            lambda tx: job_operations.fork(tx, source, before, job, now, copies), Urgency.SUBMIT
        )

    async def delete(self, tenant: str, job_id: str, now: int) -> DeletedJob:
        """Delete a finished job."""
        job = await self.get(tenant, job_id)
        deleted = await self._writer.write(
            lambda tx: job_operations.delete(tx, tenant, job.id, now), Urgency.SUBMIT
        )
        if deleted is None:
            raise Gone(f"job {job_id} is gone: another request deleted it")
        return deleted


def _fetch_one(db: apsw.Connection, sql: str, values: tuple[Any, ...]) -> Any:
    return db.execute(sql, values).fetchone()
