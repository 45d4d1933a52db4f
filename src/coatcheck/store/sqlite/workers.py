"""Workers on SQLite: who is there, and what each holds. See `coatcheck.store.workers`."""

from __future__ import annotations

import json

from coatcheck.model.job import Lease
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import HeldJob, RegisteredWorker
from coatcheck.store.rows import read_worker
from coatcheck.store.sqlite import jobs
from coatcheck.store.sqlite.locks import LivenessLocks
from coatcheck.store.sqlite.reader import Reader
from coatcheck.store.sqlite.statements import SQL
from coatcheck.store.sqlite.transaction import Transaction, Urgency
from coatcheck.store.sqlite.writer import Writer


class SQLiteWorkers:
    """The part of the store that knows which workers there are."""

    _writer: Writer
    _reader: Reader
    _life: LivenessLocks

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Make a worker known."""
        # Alive before it is known: nobody may ever see it registered and take it for dead. One
        # without a process here has no sign of life but its heartbeat.
        if worker.pid:
            self._life.hold(worker.id)
        try:
            await self._writer.write(lambda tx: _register(tx, worker), Urgency.WORKER)
        except BaseException:
            self._life.drop(worker.id)
            raise

    async def beat(self, worker_id: str) -> bool:
        """Raise a worker's heartbeat count."""
        return await self._writer.write(lambda tx: _beat(tx, worker_id), Urgency.WORKER)

    async def workers(self) -> list[RegisteredWorker]:
        """List the registered workers."""
        rows = await self._reader.all(SQL.all_workers)
        return [
            RegisteredWorker(info, known_dead=info.pid != 0 and self._life.is_dead(info.id))
            for info in map(read_worker, rows)
        ]

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and take back what it holds."""
        removed = await self._writer.write(
            lambda tx: _remove(tx, worker_id, beats, now), Urgency.WORKER
        )
        if removed is not None:
            self._life.drop(worker_id)
        return removed

    async def held_by(self, worker_id: str) -> list[HeldJob]:
        """List what a worker holds."""
        rows = await self._reader.all(SQL.held_by, (worker_id,))
        return [HeldJob(Lease(*row[:3]), row[3] == 1) for row in rows]


def _register(tx: Transaction, worker: WorkerInfo) -> None:
    """Insert a worker."""
    kinds = json.dumps(worker.kinds)
    identity = (worker.id, worker.host, worker.pid)
    tx.execute(SQL.insert_worker, (*identity, kinds, worker.slots, worker.started_at, worker.beats))


def _beat(tx: Transaction, worker_id: str) -> bool:
    """Raise a worker's count; False when it was removed."""
    tx.execute(SQL.beat, (worker_id,))
    return tx.changed() == 1


def _remove(tx: Transaction, worker_id: str, beats: int | None, now: int) -> int | None:
    """Remove a worker with the count it was judged by and take back its jobs; None: it moved on."""
    row = tx.one(SQL.worker_beats, (worker_id,))
    if row is None or (beats is not None and row[0] != beats):
        return None
    held = tx.all(SQL.held_by, (worker_id,))
    for tenant, job_id, *_ in sorted(held):
        jobs.lose(tx, tenant, job_id, now)
    tx.execute(SQL.delete_worker, (worker_id,))
    return len(held)
