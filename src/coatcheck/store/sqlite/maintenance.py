"""The maintenance part of the SQLite store.

*The sweep* fails overdue jobs and deletes expired rows. Each of its operations is bounded.

*Secure deletion.* SQLite overwrites deleted rows in their pages (`secure_delete`), but in WAL mode
those pages and their earlier versions stay in the write-ahead log until it is truncated: after a
passive checkpoint the bytes were still found there. So a deletion is complete when
`wal_checkpoint(TRUNCATE)` has succeeded. The truncation needs a moment without a writer and without
a reader behind the end of the log. Readers are short, so it is retried for a while.

Triggers count deletions that are not yet erased (table `unerased`), in the transaction that
deletes; a text that was replaced by its re-encrypted form counts too. Truncating the log subtracts
the count that was read before. A crash in between only means that the log is truncated once more.
The sweep of any process erases the deletions of all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import apsw

from coatcheck.model import transition as rules
from coatcheck.model.job import Terms
from coatcheck.model.transition import JobStatus, Transition
from coatcheck.store.base import Topic
from coatcheck.store.maintenance import SweepResult
from coatcheck.store.sqlite.database.connection import connect, translate
from coatcheck.store.sqlite.database.locks import FileLock
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.operations import batches
from coatcheck.store.sqlite.operations import jobs as job_operations
from coatcheck.store.sqlite.operations.transitions import cascade, find, write

Rule = Callable[[JobStatus, Terms, int], Transition | None]

# The most rows that one step of a sweep touches.
SWEEP_LIMIT = 200
TOMBSTONE_RETENTION_MS = 7 * 86_400_000
# How long a truncation of the log is retried, and how often.
ERASE_TIMEOUT_S = 3.0
ERASE_PAUSE_S = 0.02


class SQLiteMaintenance:
    """The verbs of periodic work."""

    def __init__(self, writer: Writer, reader: Reader, path: Path, write_lock: Path) -> None:
        self._writer = writer
        self._reader = reader
        self._path = path
        self._write_lock = write_lock

    async def sweep(self, now: int) -> SweepResult:
        """Do a bounded amount of overdue work. An idle store is only read."""
        old, abandoned = now - TOMBSTONE_RETENTION_MS, now - batches.ABANDONED_AFTER_MS
        times = (now, old, abandoned, now - rules.OVERRUN_MS)
        found = await self._reader.one(SQL.anything_to_sweep, times)
        if not found[0]:
            return SweepResult()
        finished = await batches.finish_accepted(self._writer, now)
        swept = await self._writer.write(lambda tx: sweep(tx, now), Urgency.BULK)
        return swept._replace(batches=int(finished), more=swept.more or finished)

    async def erase_deleted(self) -> bool:
        """Truncate the write-ahead log if it may hold deleted rows."""
        found = await self._reader.one(SQL.unerased)
        if not found[0]:
            return True
        return await asyncio.to_thread(erase, self._path, self._write_lock)

    async def increment_counters(self, deltas: Mapping[str, int]) -> None:
        """Add to counters."""

        def add(tx: Transaction) -> None:
            for delta in deltas.items():
                tx.execute(SQL.count_up, delta)

        await self._writer.write(add, Urgency.WORKER)

    async def read_counters(self) -> dict[str, int]:
        """Read the counters."""
        return dict(await self._reader.all(SQL.all_counters))


def sweep(tx: Transaction, now: int) -> SweepResult:
    """Do a bounded amount of overdue work in one transaction."""
    expired = _finish_overdue(tx, tx.all(SQL.past_deadline, (now, SWEEP_LIMIT)), rules.expired, now)
    long_ago = now - rules.OVERRUN_MS
    overran = _finish_overdue(
        tx, tx.all(SQL.running_past_deadline, (long_ago, SWEEP_LIMIT)), rules.overran, now
    )
    tx.execute(SQL.drop_old_inputs, (now, SWEEP_LIMIT))
    dropped = tx.changed()
    deleted = _delete_expired_jobs(tx, now)
    cascading = [
        cascade(tx, tenant, job_id, now)
        for tenant, job_id in tx.all(SQL.cascades, (SWEEP_LIMIT // 10,))
    ]
    tx.execute(SQL.delete_old_tombstones, (now - TOMBSTONE_RETENTION_MS, SWEEP_LIMIT))
    tx.execute(SQL.delete_expired_records, (now, SWEEP_LIMIT))
    tx.execute(SQL.delete_expired_keys, (now, SWEEP_LIMIT))
    more = SWEEP_LIMIT in (expired, overran, dropped, deleted) or any(cascading)
    return SweepResult(expired=expired + overran, deleted=deleted, more=more)


def _finish_overdue(
    tx: Transaction, overdue: Sequence[tuple[str, str]], rule: Rule, now: int
) -> int:
    # Parents come before their children: a finished child would wake a parent that is overdue too.
    for tenant, job_id in sorted(overdue):
        found = find(tx, tenant, job_id)
        if found is not None:
            finished = rule(found.status, found.terms, now)
            if finished is not None:
                write(tx, tenant, job_id, found, finished, now)
                tx.topics.add(Topic.CHANGES)
    return len(overdue)


def _delete_expired_jobs(tx: Transaction, now: int) -> int:
    expired = tx.all(SQL.past_retention, (now, SWEEP_LIMIT))
    for rowid, tenant, job_id in expired:
        job_operations.remove(tx, rowid, tenant, job_id, now)
    return len(expired)


def erase(path: Path, write_lock: Path) -> bool:
    """Truncate the write-ahead log. Returns False if readers prevented it until the timeout."""
    lock = FileLock(write_lock)
    try:
        with closing(connect(path)) as connection:
            connection.set_busy_timeout(0)
            until = time.monotonic() + ERASE_TIMEOUT_S
            while not _truncate_log(connection, lock):
                if time.monotonic() >= until:
                    return False
                time.sleep(ERASE_PAUSE_S)
            return True
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        lock.close()


def _truncate_log(connection: apsw.Connection, lock: FileLock) -> bool:
    with lock:  # keeps out writers
        deletions = connection.execute(SQL.unerased).get
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            return False
        connection.execute(SQL.erased, (deletions,))
        return True
