"""The SQLite store: one file, shared by any number of processes on one machine.

The protocols are described where they are implemented: group commit in writer.py, wake-ups in
wakeups.py, file locks and worker liveness in locks.py, large batches in batches.py, secure deletion
in maintenance.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from coatcheck.ids import UlidGenerator
from coatcheck.store.base import Signal, Topic
from coatcheck.store.shared.migrations import Migration
from coatcheck.store.sqlite.access import SQLiteAccess
from coatcheck.store.sqlite.audit import SQLiteAudit
from coatcheck.store.sqlite.database.locks import FileLock, LivenessLocks
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.schema import migrate_file
from coatcheck.store.sqlite.database.wakeups import Wakeups
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.files import SQLiteFiles
from coatcheck.store.sqlite.jobs import SQLiteJobs
from coatcheck.store.sqlite.maintenance import SQLiteMaintenance
from coatcheck.store.sqlite.operations import bulk_insert
from coatcheck.store.sqlite.queues import SQLiteQueues
from coatcheck.store.sqlite.records import SQLiteRecords
from coatcheck.store.sqlite.rekey import SQLiteRekey
from coatcheck.store.sqlite.schedules import SQLiteSchedules
from coatcheck.store.sqlite.webhooks import SQLiteWebhooks
from coatcheck.store.sqlite.workers import SQLiteWorkers


class SQLiteStore:
    """A store in one SQLite file."""

    def __init__(self, path: Path, *, poll_s: float = 1.0) -> None:
        self._path = path.absolute()
        self._poll_s = poll_s
        self._run_folder = self._path.with_name(self._path.name + ".run")
        self._write_lock = self._run_folder / "write.lock"
        self._new_id = UlidGenerator()
        self._is_open = False
        self._lock: FileLock
        self._wakeups: Wakeups
        self._liveness = LivenessLocks(self._run_folder / "workers")
        self._writer = writer = Writer(self._path, bulk_insert.merge)
        self._reader = reader = Reader(self._path)
        self.jobs = SQLiteJobs(writer, reader, self._new_id)
        self.workers = SQLiteWorkers(writer, reader, self._liveness)
        self.files = SQLiteFiles(writer, reader)
        self.queues = SQLiteQueues(writer, reader)
        self.records = SQLiteRecords(writer, reader)
        self.schedules = SQLiteSchedules(writer, reader)
        self.webhooks = SQLiteWebhooks(writer, reader)
        self.access = SQLiteAccess(writer, reader)
        self.audit = SQLiteAudit(writer, reader)
        self.rekey = SQLiteRekey(writer, reader)
        self.maintenance = SQLiteMaintenance(writer, reader, self._path, self._write_lock)

    async def open(self) -> None:
        """Create the file and its folders if missing, migrate, and start the threads."""
        await asyncio.to_thread(migrate_file, self._path, self._run_folder)
        self._lock = FileLock(self._write_lock)
        self._wakeups = Wakeups(self._path, self._run_folder, self._new_id(), self._poll_s)
        self._writer.open(self._lock, self._wakeups.publish)
        self._reader.open()
        self._is_open = True

    async def migrate(self) -> list[Migration]:
        """Apply missing migrations under the write lock."""
        return await asyncio.to_thread(migrate_file, self._path, self._run_folder)

    async def close(self) -> None:
        """Finish the writes in progress, then stop the threads. No-op if the store is not open."""
        if self._is_open:
            self._is_open = False
            await self._writer.close()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._reader.close()
        self._wakeups.close()
        self._liveness.close()
        self._lock.close()

    async def ping(self) -> None:
        """Raise StoreUnavailable unless a transaction commits."""
        await self.maintenance.increment_counters({"pings": 1})

    def subscribe(self, topic: Topic) -> Signal:
        """Return a signal that commits of any process on this file set."""
        return self._wakeups.subscribe(topic)
