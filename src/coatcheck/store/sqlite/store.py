"""SQLiteStore: the Store protocol on one file. The protocols it runs on open their own modules:
group commit in writer.py, wake-ups in wake.py, locks and life signs in locks.py, large batches in
batches.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from errno import EISDIR
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from coatcheck.errors import ConfigurationError, Gone, InputGone, InvalidInput, NotFound
from coatcheck.ids import UlidGenerator, is_ulid, ulid_time
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import Event
from coatcheck.model.job import Job, Lease, NewJob
from coatcheck.model.limit import Limit
from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.record import Record
from coatcheck.model.step import MOST_MESSAGES, Message, Step
from coatcheck.model.upload import StoredUpload
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import (
    BATCH_LIMIT,
    NO_COPIES,
    NO_LIMITS,
    NO_VERSIONS,
    Claimed,
    Deleted,
    Earlier,
    Held,
    Idempotency,
    JobFilter,
    QueueStatus,
    Report,
    SeenWorker,
    Settlement,
    Signal,
    Stands,
    Swept,
    Topic,
)
from coatcheck.store.migrations import Migration
from coatcheck.store.rows import read_event, read_job, read_step
from coatcheck.store.sqlite import (
    batches,
    blobs,
    claiming,
    erasing,
    housekeeping,
    jobs,
    merged,
    records,
    transitions,
    workers,
)
from coatcheck.store.sqlite.access import SQLiteAccess, check_epoch
from coatcheck.store.sqlite.connection import connect, translate
from coatcheck.store.sqlite.listing import list_query
from coatcheck.store.sqlite.locks import FileLock, LifeSigns, refuse_network_filesystem
from coatcheck.store.sqlite.operation import Operation, Transaction, Urgency
from coatcheck.store.sqlite.reader import Reader
from coatcheck.store.sqlite.resealing import SQLiteResealing
from coatcheck.store.sqlite.schedules import SQLiteSchedules
from coatcheck.store.sqlite.schema import migrate
from coatcheck.store.sqlite.statements import SQL
from coatcheck.store.sqlite.wake import Wakeups
from coatcheck.store.sqlite.webhooks import SQLiteWebhooks
from coatcheck.store.sqlite.writer import Writer
from coatcheck.store.turns import Turns, kind_in_lanes, priority_in_lanes

T = TypeVar("T")


class SQLiteStore(SQLiteSchedules, SQLiteWebhooks, SQLiteAccess, SQLiteResealing):
    """Jobs in one SQLite file, shared by any number of processes on one machine."""

    any_loop = True

    def __init__(self, path: Path, *, poll_s: float = 1.0) -> None:
        self._path = path.absolute()
        self._poll_s = poll_s
        self._run_folder = self._path.with_name(self._path.name + ".run")
        self._new_id = UlidGenerator()
        self._turns = Turns()
        self._counted: set[str] = set()  # kinds of which all that runs counts for their limits
        self._is_open = False
        self._lock: FileLock
        self._life: LifeSigns
        self._wakeups: Wakeups
        self._writer: Writer
        self._reader: Reader

    # --- opening and closing

    async def open(self) -> None:
        """Make the file and its folders where they are missing, migrate, start the threads."""
        await asyncio.to_thread(self._migrate)
        self._lock = FileLock(self._run_folder / "write.lock")
        self._life = LifeSigns(self._run_folder / "workers")
        self._wakeups = Wakeups(self._path, self._run_folder, self._new_id(), self._poll_s)
        self._writer = Writer(self._path, self._lock, self._wakeups.publish, merged.merge)
        self._reader = Reader(self._path)
        self._is_open = True

    async def migrate(self) -> list[Migration]:
        """Apply the missing migrations under the write lock; needs no open store."""
        return await asyncio.to_thread(self._migrate)

    def _migrate(self) -> list[Migration]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            refuse_network_filesystem(self._path)
            self._run_folder.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(self._run_folder / "write.lock")
            if self._path.is_dir():
                raise IsADirectoryError(EISDIR, "it is a folder")
        except OSError as error:
            raise ConfigurationError(
                f"cannot use {self._path} as a database: {error.strerror}"
            ) from error
        connection = None
        try:
            with lock:
                connection = connect(self._path)
                return migrate(connection)
        except apsw.NotADBError as error:
            raise ConfigurationError(f"{self._path} is not a SQLite database") from error
        except apsw.Error as error:
            raise translate(error) from error
        finally:
            if connection is not None:
                connection.close()
            lock.close()

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
        self, job: NewJob, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> Earlier | None:
        """Make a job durable."""

        def submit(tx: Transaction) -> Earlier | None:
            if epoch is not None:
                check_epoch(tx, epoch)
            if once is not None:
                return jobs.submit_once(tx, (job,), now, once)
            jobs.submit(tx, job, now)
            return None

        merges = None
        if once is None and merged.can_be_merged(job):
            merges = merged.Incoming(job, now, epoch)
        return await self._writer.write(submit, Urgency.SUBMIT, merges)

    async def earlier(self, tenant: str, key: str, now: int) -> Earlier | None:
        """Read what was submitted under a key."""
        row = await self._reader.read(lambda db: _one(db, SQL.key, (tenant, key, now)))
        return None if row is None else Earlier(*row)

    async def submit_batch(
        self, new: Sequence[NewJob], now: int, once: Idempotency | None = None
    ) -> Earlier | None:
        """Make many jobs durable, all or none."""
        if len(new) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs, not {len(new):,}")
        if not new:
            return None
        # A public id may turn out to be taken, which must refuse the whole batch: one transaction.
        if len(new) > batches.SLICE and all(job.public_id is None for job in new):
            return await self._submit_slices(new, now, once)
        if once is None:
            await self._write(lambda tx: jobs.submit_all(tx, new, now), Urgency.BULK)
            return None
        return await self._write(lambda tx: jobs.submit_once(tx, new, now, once), Urgency.BULK)

    async def _submit_slices(
        self, new: Sequence[NewJob], now: int, once: Idempotency | None
    ) -> Earlier | None:
        batch = self._new_id()
        await self._write(lambda tx: batches.begin(tx, batch, now), Urgency.BULK)
        for number, start in enumerate(range(0, len(new), batches.SLICE)):
            slice_ = new[start : start + batches.SLICE]
            await self._write(
                partial(batches.stage, batch=batch, number=number, slice_=slice_), Urgency.BULK
            )
        earlier = await self._write(
            lambda tx: batches.accept(tx, batch, new, now, once), Urgency.BULK
        )
        if earlier is None:
            await self._finish_batch(batch, now)
        else:
            while await self._finish_accepted(now):
                continue  # the earlier one may be half-way, and not the only one
        return earlier

    async def _finish_accepted(self, now: int) -> bool:
        batch = await self._write(lambda tx: batches.unfinished(tx, now), Urgency.BULK)
        if batch is not None:
            await self._finish_batch(batch, now)
        return batch is not None

    async def _finish_batch(self, batch: str, now: int) -> None:
        while await self._write(lambda tx: batches.apply_next_slice(tx, batch, now), Urgency.BULK):
            continue

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id."""
        sql = SQL.job_by_id if is_ulid(job_id) else SQL.job_by_public_id
        row, tombstone = await self._reader.read(
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
        rows = await self._reader.read(lambda db: _all(db, SQL.jobs_by_ids, (json.dumps(ids),)))
        return [read_job(row) for row in rows]

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        sql, values = list_query(which)
        rows = await self._reader.read(lambda db: _all(db, sql, values))
        return [read_job(row) for row in rows]

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[Event]:
        """Read a job's log."""
        rows = await self._reader.read(
            lambda db: _all(db, SQL.events_after, (tenant, job_id, after, limit))
        )
        return [read_event(row) for row in rows]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Ask for a job to be cancelled."""
        job = await self.get(tenant, job_id)

        def cancel(tx: Transaction) -> None:
            if transitions.cancel(tx, tenant, job.id, now):
                transitions.cascade(tx, tenant, job.id, now)

        await self._write(cancel, Urgency.SUBMIT)
        return await self.get(tenant, job.id)

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps."""
        rows = await self._reader.read(lambda db: _all(db, SQL.steps_of, (tenant, job_id)))
        return [read_step(row) for row in rows]

    async def messages(self, tenant: str, job_id: str) -> list[Message]:
        """Read what was sent to a job."""
        rows = await self._reader.read(lambda db: _all(db, SQL.messages_of, (tenant, job_id)))
        return [Message(*row) for row in rows]

    async def input_of(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        job = await self.get(tenant, job_id)
        row = await self._reader.read(lambda db: _one(db, SQL.payload, (tenant, job.id, "input")))
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
        await self._write(
            lambda tx: jobs.send(tx, tenant, job.id, name, data, now, key, most), Urgency.SUBMIT
        )
        return await self.get(tenant, job.id)

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a job again that failed or was cancelled."""
        job = await self.get(tenant, job_id)
        key = (tenant, job.id)

        def resume(tx: Transaction) -> Any:
            return tx.one(SQL.job_by_id, key) if jobs.resume(tx, *key, now) else None

        row = await self._write(resume, Urgency.SUBMIT)
        return await self.get(*key) if row is None else read_job(row)

    async def fork(
        self,
        source: str,
        before: int,
        job: NewJob,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Make a job durable that begins with steps of another."""
        await self._write(
            lambda tx: jobs.fork(tx, source, before, job, now, copies), Urgency.SUBMIT
        )

    async def delete(self, tenant: str, job_id: str, now: int) -> Deleted:
        """Remove a job that has ended."""
        job = await self.get(tenant, job_id)
        deleted = await self._write(lambda tx: jobs.delete(tx, tenant, job.id, now), Urgency.SUBMIT)
        if deleted is None:
            raise Gone(f"job {job_id} is gone: somebody else has deleted it")
        return deleted

    async def ahead_of(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the jobs before one in its queue."""
        priority = priority_in_lanes(job.priority)
        named = {kind_in_lanes(job.kind, job.version), *kinds}
        wanted = json.dumps(sorted(named))
        values = (wanted, job.queue, priority, job.tenant, job.id, most, job.priority)
        row = await self._reader.read(lambda db: _one(db, SQL.ahead_of, values))
        return int(row[0])

    # --- working

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Make a worker known."""
        # Alive before it is known: nobody may ever see it registered and take it for dead. One
        # without a process here has no sign of life but its heartbeat.
        if worker.pid:
            self._life.hold(worker.id)
        try:
            await self._write(lambda tx: workers.register(tx, worker), Urgency.WORKER)
        except BaseException:
            self._life.drop(worker.id)
            raise

    async def beat(self, worker_id: str) -> bool:
        """Raise a worker's heartbeat count."""
        return await self._write(lambda tx: workers.beat(tx, worker_id), Urgency.WORKER)

    async def workers(self) -> list[SeenWorker]:
        """List the registered workers."""
        rows = await self._reader.read(lambda db: _all(db, SQL.all_workers))
        found = []
        for id_, host, pid, kinds, slots, started_at, beats in rows:
            info = WorkerInfo(id_, host, pid, tuple(json.loads(kinds)), slots, started_at, beats)
            found.append(SeenWorker(info, pid != 0 and self._life.is_dead(id_)))
        return found

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and take back what it holds."""
        removed = await self._write(
            lambda tx: workers.remove(tx, worker_id, beats, now), Urgency.WORKER
        )
        if removed is not None:
            self._life.drop(worker_id)
        return removed

    async def claim(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit] = NO_LIMITS,
        versions: Mapping[str, str] = NO_VERSIONS,
    ) -> Claimed:
        """Take jobs that are due."""
        counted = {kind for kind, each in limits.items() if each.concurrency is not None}
        if not counted <= self._counted:
            values = (json.dumps(sorted(counted)),)
            await self._write(lambda tx: tx.execute(SQL.adopt_running, values), Urgency.WORKER)
            self._counted |= counted
        return await self._write(
            lambda tx: claiming.claim(
                tx, self._turns, worker_id, kinds, limit, now, limits, versions
            ),
            Urgency.WORKER,
        )

    async def stands(self, kind: str, limit: Limit | None, tenant: str, key: str | None) -> Stands:
        """Count what a kind's limit counts."""
        most = 0 if limit is None else limit.concurrency or 0
        values: list[str | int | None]
        sql, values = SQL.running_of_kind, [kind, most]
        if limit is not None and limit.by_key:
            sql, values = SQL.running_of_key, [kind, tenant, key, most]
        running, rate = await self._reader.read(
            lambda db: (_one(db, sql, tuple(values)), _one(db, SQL.rate, (kind,)))
        )
        return Stands(running[0], 0 if rate is None else rate[0])

    async def held_by(self, worker_id: str) -> list[Held]:
        """List what a worker holds."""
        rows = await self._reader.read(lambda db: _all(db, SQL.held_by, (worker_id,)))
        return [Held(Lease(*row[:3]), row[3] == 1) for row in rows]

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself."""
        return await self._write(lambda tx: jobs.report(tx, lease, report, now), Urgency.WORKER)

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts."""
        return await self._write(lambda tx: jobs.settle(tx, settlements, now), Urgency.WORKER)

    # --- blobs

    async def reserve_blob(self, blob: BlobName, remove_at: int) -> None:
        """Note a blob before its bytes are written."""
        await self._write(lambda tx: blobs.reserve(tx, blob, remove_at), Urgency.SUBMIT)

    async def keep_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Name a file of a running job."""
        return await self._write(
            lambda tx: jobs.keep_artifact(tx, lease, artifact, content), Urgency.WORKER
        )

    async def artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read a file that is kept in its row."""
        rows = await self._read(SQL.artifact_content, (tenant, job_id, name))
        return rows[0][0] if rows else None

    async def unneeded_blobs(self, now: int, limit: int) -> list[BlobName]:
        """List blobs whose bytes are to be removed; an idle system writes nothing."""
        if await self._reader.read(lambda db: _one(db, SQL.blobs_to_remove, (now, 1))) is None:
            return []
        return await self._write(lambda tx: blobs.take_unneeded(tx, now, limit), Urgency.BULK)

    async def forget_blobs(self, gone: Sequence[BlobName]) -> None:
        """Drop what is known of blobs whose bytes are gone."""
        await self._write(lambda tx: blobs.forget(tx, gone), Urgency.BULK)

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Make a file known that no job has taken over."""
        await self._write(lambda tx: blobs.put_upload(tx, tenant, upload), Urgency.SUBMIT)

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read what is known of a file."""
        row = await self._reader.read(lambda db: _one(db, SQL.upload, (tenant, job_id, upload_id)))
        return None if row is None else StoredUpload(*row)

    async def uploads_of(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the files of a job's input."""
        rows = await self._reader.read(lambda db: _all(db, SQL.uploads_of, (tenant, job_id)))
        return [StoredUpload(*row) for row in rows]

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Give a file up that no job has taken over."""
        return await self._write(
            lambda tx: blobs.delete_upload(tx, tenant, upload_id), Urgency.SUBMIT
        )

    # --- keeping house

    async def sweep(self, now: int) -> Swept:
        """Do what is due, a bounded amount."""
        old, abandoned = now - housekeeping.TOMBSTONES_KEPT_MS, now - batches.ABANDONED_AFTER_MS
        found = await self._reader.read(
            lambda db: _one(db, SQL.anything_to_sweep, (now, old, abandoned))
        )
        if not found[0]:
            return Swept()
        finished = await self._finish_accepted(now)
        swept = await self._write(lambda tx: housekeeping.sweep(tx, now), Urgency.BULK)
        return swept._replace(batches=int(finished), more=swept.more or finished)

    async def erase(self) -> bool:
        """Truncate the log that removed rows may still be in; an idle system does nothing."""
        found = await self._reader.read(lambda db: _one(db, SQL.unerased))
        if not found[0]:
            return True
        return await asyncio.to_thread(erasing.erase, self._path, self._run_folder / "write.lock")

    async def queues(self) -> list[QueueStatus]:
        """List the queues."""
        rows = await self._reader.read(lambda db: _all(db, SQL.queue_status))
        return [
            QueueStatus(
                name,
                paused == 1,
                ready,
                delayed,
                running,
                None if oldest is None else ulid_time(oldest),
                concurrency,
            )
            for name, paused, ready, delayed, running, oldest, concurrency in rows
        ]

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Stop or resume claims from a queue."""
        await self._write(
            lambda tx: workers.pause_queue(tx, name, now if paused else None), Urgency.WORKER
        )

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Let so many jobs of a queue run at once."""
        await self._write(lambda tx: workers.limit_queue(tx, name, concurrency), Urgency.WORKER)

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to the counters."""

        def add(tx: Transaction) -> None:
            for delta in deltas.items():
                tx.execute(SQL.count_up, delta)

        await self._write(add, Urgency.WORKER)

    async def counters(self) -> dict[str, int]:
        """Read the counters."""
        return dict(await self._reader.read(lambda db: _all(db, SQL.all_counters)))

    # --- small documents

    async def put_record(
        self, record: Record, expected_version: int | None = None
    ) -> Record | None:
        """Write a document."""
        return await self._write(
            lambda tx: records.put(tx, record, expected_version), Urgency.SUBMIT
        )

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a document."""
        row = await self._reader.read(lambda db: _one(db, SQL.record, (tenant, collection, key)))
        found = None if row is None else Record(*row)
        return None if found is None or found.has_expired(now) else found

    async def list_records(
        self, tenant: str, collection: str, now: int, after: str = "", limit: int = 100
    ) -> list[Record]:
        """List a collection."""
        rows = await self._reader.read(
            lambda db: _all(db, SQL.records_after, (tenant, collection, after, now, limit))
        )
        return [Record(*row) for row in rows]

    async def delete_record(self, tenant: str, collection: str, key: str) -> bool:
        """Delete a document."""
        return await self._write(
            lambda tx: records.delete(tx, tenant, collection, key), Urgency.SUBMIT
        )

    # --- being woken

    def subscribe(self, topic: Topic) -> Signal:
        """Be woken by what any process does to this file."""
        return self._wakeups.subscribe(topic)

    async def _write(self, operation: Operation[T], urgency: Urgency) -> T:
        return await self._writer.write(operation, urgency)


def _one(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:
    return db.execute(sql, values).fetchone()


def _all(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
    return db.execute(sql, values).fetchall()
