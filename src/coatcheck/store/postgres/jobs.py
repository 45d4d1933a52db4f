"""The jobs part of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.errors import Gone, InputGone, InvalidInput, NotFound
from coatcheck.ids import is_ulid
from coatcheck.model import transition as rules
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.base import Topic
from coatcheck.store.jobs import (
    BATCH_LIMIT,
    NO_COPIES,
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
)
from coatcheck.store.postgres.access import the_one_epoch
from coatcheck.store.postgres.database.coalesce import Coalescer
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.list_query import list_query
from coatcheck.store.postgres.operations import commands
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.operations.after_commit import AfterCommit, WorkNotifier
from coatcheck.store.postgres.operations.idempotency import KeyedSubmission, submit_once
from coatcheck.store.shared.rows import read_event, read_job, read_step


class PostgresJobs:
    """The verbs on jobs."""

    def __init__(
        self,
        database: Database,
        sql: Statements,
        notifications: Notifications,
        work: WorkNotifier,
        after_commit: AfterCommit,
    ) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications
        self._work = work
        self._after_commit = after_commit
        self._submits: Coalescer[tuple[JobInsert, int, int | None], None]
        self._keyed_submits: Coalescer[KeyedSubmission, ExistingSubmission | None]

    def open(self) -> None:
        """Start to coalesce submits, on the running loop."""
        self._submits = Coalescer(self._submit_all)
        self._keyed_submits = Coalescer(self._submit_keyed)

    async def drain(self) -> None:
        """Wait for the submits in progress."""
        await self._submits.drain()
        await self._keyed_submits.drain()

    async def submit(
        self,
        job: JobInsert,
        now: int,
        idempotency: Idempotency | None = None,
        epoch: int | None = None,
    ) -> ExistingSubmission | None:
        """Write a job."""
        if idempotency is None:
            await self._submits((job, now, epoch))
            return None
        return await self._keyed_submits(KeyedSubmission((job,), now, idempotency, epoch))

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Write a job in its terminal state."""
        topics, effects = await self._database.run(
            lambda db: job_operations.submit_finished(db, self._sql, job, finished, now, epoch)
        )
        if finished.report is not None:
            self._work.jobs_submitted(finished.report.children)
        await self._after_commit.follow(effects, now)
        self._notifications.publish(topics)

    async def submit_batch(
        self, jobs: Sequence[JobInsert], now: int, idempotency: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Write many jobs in one statement, which blocks no other writer."""
        if len(jobs) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs, not {len(jobs):,}")
        if idempotency is not None and jobs:
            return (await self._submit_keyed([KeyedSubmission(jobs, now, idempotency)]))[0]
        await self._insert(jobs, now)
        self._work.jobs_submitted(jobs)
        return None

    async def find_submission(self, tenant: str, key: str, now: int) -> ExistingSubmission | None:
        """Find the submission under an idempotency key."""
        row = await self._database.fetchrow(self._sql.earlier, tenant, key, now)
        return None if row is None else ExistingSubmission(*row)

    async def _submit_all(self, batch: Sequence[tuple[JobInsert, int, int | None]]) -> list[None]:
        # One time for the whole batch, that of the last caller, decides which jobs are due.
        now = max(now for _, now, _ in batch)
        jobs = [job for job, _, _ in batch]
        await self._insert(jobs, now, the_one_epoch(epoch for _, _, epoch in batch))
        self._work.jobs_submitted(jobs)
        return [None] * len(batch)

    async def _insert(self, jobs: Sequence[JobInsert], now: int, epoch: int | None = None) -> None:
        # A single statement needs no explicit transaction.
        several = any(map(job_operations.brings_more, jobs))
        await self._database.run(
            lambda db: job_operations.submit(
                db, self._sql, jobs, now, in_transaction=several, epoch=epoch
            ),
            transaction=several,
        )

    async def _submit_keyed(
        self, batch: Sequence[KeyedSubmission]
    ) -> list[ExistingSubmission | None]:
        now = max(item.now for item in batch)
        answers = await self._database.run(lambda db: submit_once(db, self._sql, batch, now))
        self._work.jobs_submitted([job for item in batch for job in item.new])
        return answers

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id."""
        if "\0" in job_id:
            raise NotFound("there is no such job")  # PostgreSQL cannot store a NUL in a text
        sql = self._sql.job_by_id if is_ulid(job_id) else self._sql.job_by_public_id
        row = await self._database.fetchrow(sql, tenant, job_id)
        if row is not None:
            return read_job(row)
        if await self._database.fetchrow(self._sql.tombstone, tenant, job_id) is not None:
            raise Gone(f"job {job_id} is gone: it was deleted, or its retention has passed")
        raise NotFound(f"there is no job {job_id}")

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read the existing jobs among many."""
        rows = await self._database.fetch(self._sql.jobs_by_ids, *job_operations.columns(ids, 2))
        return [read_job(row) for row in rows]

    async def list_jobs(self, page: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        sql, values = list_query(self._sql, page)
        if not page.labels:
            return [read_job(row) for row in await self._database.fetch(sql, *values)]

        async def read(db: Any) -> list[Any]:
            await db.execute(self._sql.plan_for_values)
            return list(await db.fetch(sql, *values))

        return [read_job(row) for row in await self._database.run(read)]

    async def get_input(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        job = await self.get(tenant, job_id)
        row = await self._database.fetchrow(self._sql.input_of, tenant, job.id)
        if row is None or row[0] == "":
            raise InputGone(f"the input of job {job_id} is gone")
        return str(row[0])

    async def list_events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """List a job's events."""
        rows = await self._database.fetch(self._sql.events_after, tenant, job_id, after, limit)
        return [read_event(row) for row in rows]

    async def list_steps(self, tenant: str, job_id: str) -> list[Step]:
        """List a job's steps."""
        rows = await self._database.fetch(self._sql.steps_of, tenant, job_id)
        return [read_step(row) for row in rows]

    async def list_sent_events(self, tenant: str, job_id: str) -> list[SentEvent]:
        """List the events that were sent to a job."""
        rows = await self._database.fetch(self._sql.messages_of, tenant, job_id)
        return [SentEvent(*row) for row in rows]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Request the cancellation of a job."""
        job = await self.get(tenant, job_id)
        _, effects = await self._database.run(
            lambda db: job_operations.move(
                db, self._sql, [(tenant, job.id)], rules.request_cancel, now
            )
        )
        await self._after_commit.follow(effects, now)
        # Even if nothing changed: an earlier try may have committed without a notification.
        self._notifications.publish({Topic.CANCELS, Topic.CHANGES})
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
        job = (tenant, (await self.get(tenant, job_id)).id)
        await self._database.run(
            lambda db: commands.send(db, self._sql, job, name, data, now, key, most),
            repeatable=key is not None,
        )
        self._work.jobs_woken()
        return await self.get(*job)

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a failed or cancelled job again."""
        job = (tenant, (await self.get(tenant, job_id)).id)
        row = await self._database.run(lambda db: commands.resume(db, self._sql, job, now))
        self._work.jobs_woken()
        return await self.get(*job) if row is None else read_job(row)

    async def fork(
        self,
        source: str,
        before: int,
        job: JobInsert,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Write a new job with completed steps of another."""
        await self._database.run(
            lambda db: commands.fork(db, self._sql, source, before, job, now, copies)
        )
        self._work.jobs_submitted([job])

    async def delete(self, tenant: str, job_id: str, now: int) -> DeletedJob:
        """Delete a finished job."""
        job = await self.get(tenant, job_id)
        deleted = await self._database.run(lambda db: commands.delete(db, self._sql, job, now))
        self._notifications.publish({Topic.CHANGES})
        return deleted
