"""The write operations on workers and queues."""

from __future__ import annotations

import json

from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Topic
from coatcheck.store.sqlite import jobs
from coatcheck.store.sqlite.operation import Transaction
from coatcheck.store.sqlite.statements import SQL


def register(tx: Transaction, worker: WorkerInfo) -> None:
    """Insert a worker."""
    kinds = json.dumps(worker.kinds)
    identity = (worker.id, worker.host, worker.pid)
    tx.execute(SQL.insert_worker, (*identity, kinds, worker.slots, worker.started_at, worker.beats))


def beat(tx: Transaction, worker_id: str) -> bool:
    """Raise a worker's count; False when it was removed."""
    tx.execute(SQL.beat, (worker_id,))
    return tx.changed() == 1


def remove(tx: Transaction, worker_id: str, beats: int | None, now: int) -> int | None:
    """Remove a worker with the count it was judged by and take back its jobs; None: it moved on."""
    row = tx.one(SQL.worker_beats, (worker_id,))
    if row is None or (beats is not None and row[0] != beats):
        return None
    held = tx.all(SQL.held_by, (worker_id,))
    for tenant, job_id, *_ in sorted(held):
        jobs.lose(tx, tenant, job_id, now)
    tx.execute(SQL.delete_worker, (worker_id,))
    return len(held)


def pause_queue(tx: Transaction, name: str, paused_at: int | None) -> None:
    """Pause a queue, or open it again and wake the workers for what waits in it."""
    tx.execute(SQL.pause_queue, (name, paused_at))
    tx.topics.add(Topic.WORK)


def limit_queue(tx: Transaction, name: str, concurrency: int | None) -> None:
    """Limit what runs of a queue, counting what does, and wake the workers: there may be room."""
    tx.execute(SQL.limit_queue, (name, concurrency))
    tx.execute(SQL.adopt_running_in_queue, (name,))
    tx.topics.add(Topic.WORK)
