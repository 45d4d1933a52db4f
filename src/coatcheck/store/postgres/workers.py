"""Workers on PostgreSQL: who is there, and what each holds. See `coatcheck.store.workers`."""

from __future__ import annotations

import json

from coatcheck.model.job import Lease
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import HeldJob, RegisteredWorker
from coatcheck.store.postgres.database import Database
from coatcheck.store.postgres.statements import Statements
from coatcheck.store.rows import read_worker


class PostgresWorkers:
    """The part of the store that knows which workers there are."""

    _sql: Statements
    _database: Database

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Make a worker known."""
        kinds = json.dumps(worker.kinds)
        values = (worker.id, worker.host, worker.pid, kinds, worker.slots)
        await self._database.execute(
            self._sql.insert_worker, *values, worker.started_at, worker.beats
        )

    async def beat(self, worker_id: str) -> bool:
        """Raise a worker's heartbeat count."""
        return await self._database.execute(self._sql.beat, worker_id) == "UPDATE 1"

    async def workers(self) -> list[RegisteredWorker]:
        """List the registered workers."""
        rows = await self._database.fetch(self._sql.all_workers)
        return [RegisteredWorker(read_worker(row), known_dead=False) for row in rows]

    async def held_by(self, worker_id: str) -> list[HeldJob]:
        """List what a worker holds."""
        rows = await self._database.fetch(self._sql.held_by, worker_id)
        return [HeldJob(Lease(row[0], row[1], row[2]), row[3]) for row in rows]
