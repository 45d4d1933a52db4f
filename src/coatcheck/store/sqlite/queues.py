"""The queues part of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from coatcheck.model.job import Job
from coatcheck.store.base import QueueStatus, Topic
from coatcheck.store.shared.fairness import kind_in_lanes, priority_in_lanes
from coatcheck.store.shared.rows import read_queue
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer

# Up to this many jobs are counted inline, on the event loop.
INLINE_COUNT = 100


class SQLiteQueues:
    """The verbs on queues."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def list_queues(self) -> list[QueueStatus]:
        """List the queues."""
        rows = await self._reader.all(SQL.queue_status)
        return [read_queue(row) for row in rows]

    async def list_queue_names(self, tenant: str, limit: int) -> list[str]:
        """List the queues of a tenant's jobs."""
        return [name for (name,) in await self._reader.all(SQL.queue_names, (tenant, limit))]

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Stop or resume claims from a queue."""
        await self._writer.write(
            lambda tx: _pause(tx, name, now if paused else None), Urgency.WORKER
        )

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Limit how many jobs of a queue run at once."""
        await self._writer.write(lambda tx: _limit(tx, name, concurrency), Urgency.WORKER)

    async def is_restricted(self, name: str) -> bool:
        """Return whether a queue is paused or has a limit."""
        return await self._reader.one_inline(SQL.is_held, (name,)) is not None

    async def count_ahead(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the jobs that will be claimed before this one."""
        priority = priority_in_lanes(job.priority)
        named = {kind_in_lanes(job.kind, job.version), *kinds}
        wanted = json.dumps(sorted(named))
        values = (wanted, job.queue, priority, job.tenant, job.id, most, job.priority)
        read = self._reader.read_inline if most <= INLINE_COUNT else self._reader.read
        return await read(lambda db: _ahead_of(db, values))


def _ahead_of(db: apsw.Connection, values: tuple[Any, ...]) -> int:
    # Usually nothing is claimable. This check takes a tenth of the time of a count.
    if db.execute(SQL.anything_claimable).fetchone() is None:
        return 0
    [(count,)] = db.execute(SQL.ahead_of, values)
    return int(count)


def _pause(tx: Transaction, name: str, paused_at: int | None) -> None:
    """Pause a queue, or resume it and wake the workers for its jobs."""
    tx.execute(SQL.pause_queue, (name, paused_at))
    tx.topics.add(Topic.WORK)


def _limit(tx: Transaction, name: str, concurrency: int | None) -> None:
    """Limit a queue, mark its running jobs as counted, and wake the workers: more may start."""
    tx.execute(SQL.limit_queue, (name, concurrency))
    tx.execute(SQL.adopt_running_in_queue, (name,))
    tx.topics.add(Topic.WORK)
