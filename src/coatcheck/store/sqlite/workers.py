"""The workers part of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from coatcheck.model.job import Lease
from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.shared.fairness import RoundRobin
from coatcheck.store.shared.rows import read_worker
from coatcheck.store.sqlite.database.locks import LivenessLocks
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.operations import claim
from coatcheck.store.sqlite.operations import jobs as job_operations
from coatcheck.store.workers import (
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    HeldJob,
    LimitUsage,
    RegisteredWorker,
    Report,
    Settlement,
)


class SQLiteWorkers:
    """The verbs of workers."""

    def __init__(self, writer: Writer, reader: Reader, liveness: LivenessLocks) -> None:
        self._writer = writer
        self._reader = reader
        self._liveness = liveness
        self._round_robin = RoundRobin()
        self._counted_kinds: set[str] = set()  # all their running jobs count for their limits

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Register a worker."""
        # Acquire the lock first, so that no process considers the registered worker dead. A worker
        # without a local process proves liveness only by heartbeats.
        if worker.pid:
            self._liveness.hold(worker.id)
        try:
            await self._writer.write(lambda tx: _register(tx, worker), Urgency.WORKER)
        except BaseException:
            self._liveness.drop(worker.id)
            raise

    async def heartbeat(self, worker_id: str) -> bool:
        """Increment a worker's heartbeat count."""
        return await self._writer.write(lambda tx: _heartbeat(tx, worker_id), Urgency.WORKER)

    async def list_workers(self) -> list[RegisteredWorker]:
        """List the registered workers."""
        rows = await self._reader.all(SQL.all_workers)
        return [
            RegisteredWorker(info, known_dead=info.pid != 0 and self._liveness.is_dead(info.id))
            for info in map(read_worker, rows)
        ]

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and treat the jobs that it holds as lost."""
        removed = await self._writer.write(
            lambda tx: _remove(tx, worker_id, beats, now), Urgency.WORKER
        )
        if removed is not None:
            self._liveness.drop(worker_id)
        return removed

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
        """Claim due jobs."""
        counted = {kind for kind, each in limits.items() if each.concurrency is not None}
        if not counted <= self._counted_kinds:
            values = (json.dumps(sorted(counted)),)
            await self._writer.write(
                lambda tx: tx.execute(SQL.adopt_running, values), Urgency.WORKER
            )
            self._counted_kinds |= counted
        return await self._writer.write(
            lambda tx: claim.claim(
                tx, self._round_robin, worker_id, kinds, limit, now, limits, versions, held
            ),
            Urgency.WORKER,
        )

    async def get_limit_usage(
        self, kind: str, limit: Limit | None, tenant: str, key: str | None
    ) -> LimitUsage:
        """Count the running jobs that a kind's limit counts."""
        most = 0 if limit is None else limit.concurrency or 0
        values: list[str | int | None]
        sql, values = SQL.running_of_kind, [kind, most]
        if limit is not None and limit.by_key:
            sql, values = SQL.running_of_key, [kind, tenant, key, most]
        running, rate = await self._reader.read(
            lambda db: (
                db.execute(sql, values).fetchone(),
                db.execute(SQL.rate, (kind,)).fetchone(),
            )
        )
        assert running is not None, "a count is always a row"
        return LimitUsage(running[0], 0 if rate is None else rate[0])

    async def list_held_jobs(self, worker_id: str) -> list[HeldJob]:
        """List the jobs that a worker holds."""
        rows = await self._reader.all(SQL.held_by, (worker_id,))
        return [HeldJob(Lease(*row[:3]), row[3] == 1) for row in rows]

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write a report of a running job."""
        return await self._writer.write(
            lambda tx: job_operations.report(tx, lease, report, now), Urgency.WORKER
        )

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """Settle attempts."""
        return await self._writer.write(
            lambda tx: job_operations.settle(tx, settlements, now), Urgency.WORKER
        )


def _register(tx: Transaction, worker: WorkerInfo) -> None:
    kinds = json.dumps(worker.kinds)
    identity = (worker.id, worker.host, worker.pid)
    tx.execute(SQL.insert_worker, (*identity, kinds, worker.slots, worker.started_at, worker.beats))


def _heartbeat(tx: Transaction, worker_id: str) -> bool:
    tx.execute(SQL.beat, (worker_id,))
    return tx.changed() == 1


def _remove(tx: Transaction, worker_id: str, beats: int | None, now: int) -> int | None:
    row = tx.one(SQL.worker_beats, (worker_id,))
    if row is None or (beats is not None and row[0] != beats):
        return None
    held = tx.all(SQL.held_by, (worker_id,))
    for tenant, job_id, *_ in sorted(held):
        job_operations.lose(tx, tenant, job_id, now)
    tx.execute(SQL.delete_worker, (worker_id,))
    return len(held)
