"""SQLiteStore: the Store protocol on one file. Here are the verbs on jobs; the other parts stand in
modules named as those of the protocol. What it runs on is told where it is done: group commit in
writer.py, wake-ups in store/sqlite/wakeups.py, locks and life signs in locks.py, large batches in
batches.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from coatcheck.errors import Gone, InputGone, InvalidInput, NotFound
from coatcheck.ids import UlidGenerator, is_ulid
from coatcheck.model import transition as rules
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job, JobInsert, Lease
from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.store.base import (
    BATCH_LIMIT,
    NO_COPIES,
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
    LimitUsage,
    Report,
    Settlement,
    Signal,
    SweepResult,
    Topic,
)
from coatcheck.store.fairness import RoundRobin
from coatcheck.store.migrations import Migration
from coatcheck.store.rows import read_event, read_job, read_step
from coatcheck.store.sqlite import (
    batches,
    bulk_insert,
    claim,
    jobs,
    retention,
    secure_delete,
    transitions,
)
from coatcheck.store.sqlite.access import SQLiteAccess, check_epoch
from coatcheck.store.sqlite.audit import SQLiteAudit
from coatcheck.store.sqlite.files import SQLiteFiles
from coatcheck.store.sqlite.list_query import list_query
from coatcheck.store.sqlite.locks import FileLock, LivenessLocks
from coatcheck.store.sqlite.queues import SQLiteQueues
from coatcheck.store.sqlite.reader import Reader
from coatcheck.store.sqlite.records import SQLiteRecords
from coatcheck.store.sqlite.rekey import SQLiteRekey
from coatcheck.store.sqlite.schedules import SQLiteSchedules
from coatcheck.store.sqlite.schema import migrate_file
from coatcheck.store.sqlite.statements import SQL
from coatcheck.store.sqlite.transaction import Transaction, Urgency
from coatcheck.store.sqlite.wakeups import Wakeups
from coatcheck.store.sqlite.webhooks import SQLiteWebhooks
from coatcheck.store.sqlite.workers import SQLiteWorkers
from coatcheck.store.sqlite.writer import Writer

# So many jobs are read at a glance.
FEW = 4


class SQLiteStore(
    SQLiteWorkers,
    SQLiteFiles,
    SQLiteQueues,
    SQLiteRecords,
    SQLiteSchedules,
    SQLiteWebhooks,
    SQLiteAccess,
    SQLiteAudit,
    SQLiteRekey,
):
    """Jobs in one SQLite file, shared by any number of processes on one machine."""

    def __init__(self, path: Path, *, poll_s: float = 1.0) -> None:
        self._path = path.absolute()
        self._poll_s = poll_s
        self._run_folder = self._path.with_name(self._path.name + ".run")
        self._new_id = UlidGenerator()
        self._turns = RoundRobin()
        self._counted: set[str] = set()  # kinds of which all that runs counts for their limits
        self._is_open = False
        self._lock: FileLock
        self._life: LivenessLocks
        self._wakeups: Wakeups
        self._writer: Writer
        self._reader: Reader

    # --- opening and closing

    async def open(self) -> None:
        """Make the file and its folders where they are missing, migrate, start the threads."""
        await asyncio.to_thread(migrate_file, self._path, self._run_folder)
        self._lock = FileLock(self._run_folder / "write.lock")
        self._life = LivenessLocks(self._run_folder / "workers")
        self._wakeups = Wakeups(self._path, self._run_folder, self._new_id(), self._poll_s)
        self._writer = Writer(self._path, self._lock, self._wakeups.publish, bulk_insert.merge)
        self._reader = Reader(self._path)
        self._is_open = True

    async def migrate(self) -> list[Migration]:
        """Apply the missing migrations under the write lock; needs no open store."""
        return await asyncio.to_thread(migrate_file, self._path, self._run_folder)

    async def close(self) -> None:
        """Finish the writes under way, then stop the threads; harmless where it is not open."""
        if self._is_open:
            self._is_open = False
            await self._writer.close()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._reader.close()
        self._wakeups.close()
        self._life.close()
        self._lock.close()

    async def ping(self) -> None:
        """Raise StoreUnavailable unless a transaction can be written: it writes one."""
        await self.count({"pings": 1})

    # --- handing work in and reading it

    async def submit(
        self, job: JobInsert, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> ExistingSubmission | None:
        """Make a job durable."""

        def submit(tx: Transaction) -> ExistingSubmission | None:
            if epoch is not None:
                check_epoch(tx, epoch)
            if once is not None:
                return jobs.submit_once(tx, (job,), now, once)
            jobs.submit(tx, job, now)
            return None

        merges = None
        if once is None and bulk_insert.can_be_merged(job):
            merges = bulk_insert.PendingSubmit(job, now, epoch)
        return await self._writer.write(submit, Urgency.SUBMIT, merges)

    async def submit_finished(
        self, job: JobInsert, ended: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Make a job durable that has ended."""

        def submit(tx: Transaction) -> None:
            if epoch is not None:
                check_epoch(tx, epoch)
            jobs.submit_finished(tx, job, ended, now)

        await self._writer.write(submit, Urgency.SUBMIT)

    async def earlier(self, tenant: str, key: str, now: int) -> ExistingSubmission | None:
        """Read what was submitted under a key."""
        row = await self._reader.glance_at(SQL.key, (tenant, key, now))
        return None if row is None else ExistingSubmission(*row)

    async def submit_batch(
        self, new: Sequence[JobInsert], now: int, once: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Make many jobs durable, all or none."""
        if len(new) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs, not {len(new):,}")
        if not new:
            return None
        # A public id may turn out to be taken, which must refuse the whole batch: one transaction.
        if len(new) > batches.SLICE and all(job.public_id is None for job in new):
            return await batches.submit(self._writer, self._new_id(), new, now, once)
        if once is None:
            await self._writer.write(lambda tx: jobs.submit_all(tx, new, now), Urgency.BULK)
            return None
        return await self._writer.write(
            lambda tx: jobs.submit_once(tx, new, now, once), Urgency.BULK
        )

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id."""
        sql = SQL.job_by_id if is_ulid(job_id) else SQL.job_by_public_id
        row, tombstone = await self._reader.glance(
            lambda db: (
                _one(db, sql, (tenant, job_id)),
                _one(db, SQL.tombstone, (tenant, job_id)),
            )
        )
        if row is not None:
            return read_job(row)
        if tombstone is not None:
            raise Gone(f"job {job_id} is gone: it was deleted, or its retention has passed")
        raise NotFound(f"there is no job {job_id}")

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read those of many jobs that exist."""
        values = (json.dumps(ids),)
        read = self._reader.glance if len(ids) <= FEW else self._reader.read
        rows = await read(lambda db: db.execute(SQL.jobs_by_ids, values).fetchall())
        return [read_job(row) for row in rows]

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        sql, values = list_query(which)
        rows = await self._reader.all(sql, values)
        return [read_job(row) for row in rows]

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """Read a job's log."""
        rows = await self._reader.all(SQL.events_after, (tenant, job_id, after, limit))
        return [read_event(row) for row in rows]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Ask for a job to be cancelled."""
        job = await self.get(tenant, job_id)

        def cancel(tx: Transaction) -> None:
            if transitions.cancel(tx, tenant, job.id, now):
                transitions.cascade(tx, tenant, job.id, now)

        await self._writer.write(cancel, Urgency.SUBMIT)
        return await self.get(tenant, job.id)

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps."""
        rows = await self._reader.all(SQL.steps_of, (tenant, job_id))
        return [read_step(row) for row in rows]

    async def messages(self, tenant: str, job_id: str) -> list[SentEvent]:
        """Read what was sent to a job."""
        rows = await self._reader.all(SQL.messages_of, (tenant, job_id))
        return [SentEvent(*row) for row in rows]

    async def input_of(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        job = await self.get(tenant, job_id)
        row = await self._reader.one(SQL.payload, (tenant, job.id, "input"))
        if row is None:
            raise InputGone(f"the input of job {job_id} is gone")
        return str(row[0])

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
        """Send an event to a job."""
        job = await self.get(tenant, job_id)
        await self._writer.write(
            lambda tx: jobs.send(tx, tenant, job.id, name, data, now, key, most), Urgency.SUBMIT
        )
        return await self.get(tenant, job.id)

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a job again that failed or was cancelled."""
        job = await self.get(tenant, job_id)
        key = (tenant, job.id)

        def resume(tx: Transaction) -> Any:
            return tx.one(SQL.job_by_id, key) if jobs.resume(tx, *key, now) else None

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
        """Make a job durable that begins with steps of another."""
        await self._writer.write(
            lambda tx: jobs.fork(tx, source, before, job, now, copies), Urgency.SUBMIT
        )

    async def delete(self, tenant: str, job_id: str, now: int) -> DeletedJob:
        """Remove a job that has ended."""
        job = await self.get(tenant, job_id)
        deleted = await self._writer.write(
            lambda tx: jobs.delete(tx, tenant, job.id, now), Urgency.SUBMIT
        )
        if deleted is None:
            raise Gone(f"job {job_id} is gone: somebody else has deleted it")
        return deleted

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
        """Take jobs that are due."""
        counted = {kind for kind, each in limits.items() if each.concurrency is not None}
        if not counted <= self._counted:
            values = (json.dumps(sorted(counted)),)
            await self._writer.write(
                lambda tx: tx.execute(SQL.adopt_running, values), Urgency.WORKER
            )
            self._counted |= counted
        return await self._writer.write(
            lambda tx: claim.claim(
                tx, self._turns, worker_id, kinds, limit, now, limits, versions, held
            ),
            Urgency.WORKER,
        )

    async def stands(
        self, kind: str, limit: Limit | None, tenant: str, key: str | None
    ) -> LimitUsage:
        """Count what a kind's limit counts."""
        most = 0 if limit is None else limit.concurrency or 0
        values: list[str | int | None]
        sql, values = SQL.running_of_kind, [kind, most]
        if limit is not None and limit.by_key:
            sql, values = SQL.running_of_key, [kind, tenant, key, most]
        running, rate = await self._reader.read(
            lambda db: (_one(db, sql, tuple(values)), _one(db, SQL.rate, (kind,)))
        )
        return LimitUsage(running[0], 0 if rate is None else rate[0])

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself."""
        return await self._writer.write(
            lambda tx: jobs.report(tx, lease, report, now), Urgency.WORKER
        )

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts."""
        return await self._writer.write(
            lambda tx: jobs.settle(tx, settlements, now), Urgency.WORKER
        )

    # --- keeping house

    async def sweep(self, now: int) -> SweepResult:
        """Do what is due, a bounded amount."""
        old, abandoned = now - retention.TOMBSTONES_KEPT_MS, now - batches.ABANDONED_AFTER_MS
        times = (now, old, abandoned, now - rules.OVERRUN_MS)
        found = await self._reader.one(SQL.anything_to_sweep, times)
        if not found[0]:
            return SweepResult()
        finished = await batches.finish_accepted(self._writer, now)
        swept = await self._writer.write(lambda tx: retention.sweep(tx, now), Urgency.BULK)
        return swept._replace(batches=int(finished), more=swept.more or finished)

    async def erase(self) -> bool:
        """Truncate the log that removed rows may still be in; an idle system does nothing."""
        found = await self._reader.one(SQL.unerased)
        if not found[0]:
            return True
        return await asyncio.to_thread(
            secure_delete.erase, self._path, self._run_folder / "write.lock"
        )

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to the counters."""

        def add(tx: Transaction) -> None:
            for delta in deltas.items():
                tx.execute(SQL.count_up, delta)

        await self._writer.write(add, Urgency.WORKER)

    async def counters(self) -> dict[str, int]:
        """Read the counters."""
        return dict(await self._reader.all(SQL.all_counters))

    # --- being woken

    def subscribe(self, topic: Topic) -> Signal:
        """Be woken by what any process does to this file."""
        return self._wakeups.subscribe(topic)


def _one(db: apsw.Connection, sql: str, values: tuple[Any, ...]) -> Any:
    return db.execute(sql, values).fetchone()
