"""The queues part of the PostgreSQL store.

Running jobs of a queue count for its limit from the first moment. A claim that began before the
limit existed does not mark its jobs as counted, and may commit later. So a new limit is written in
two steps. First the queue gets a limit that blocks nothing: every claim that sees it marks its
jobs. After all claims that may not have seen it have ended, the actual limit is written, and the
jobs that were running before are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.model.job import Job
from coatcheck.store.base import QueueStatus
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations.after_commit import WorkNotifier
from coatcheck.store.shared.fairness import kind_in_lanes, priority_in_lanes
from coatcheck.store.shared.rows import read_queue


class PostgresQueues:
    """The verbs on queues."""

    def __init__(self, database: Database, sql: Statements, work: WorkNotifier) -> None:
        self._database = database
        self._sql = sql
        self._work = work

    async def list_queues(self) -> list[QueueStatus]:
        """List the queues."""
        return [read_queue(row) for row in await self._database.fetch(self._sql.queue_status)]

    async def list_queue_names(self, tenant: str, limit: int) -> list[str]:
        """List the queues of a tenant's jobs."""
        rows = await self._database.fetch(self._sql.queue_names, tenant, limit)
        return [str(row[0]) for row in rows]

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Stop or resume claims from a queue."""
        await self._database.execute(self._sql.pause_queue, name, now if paused else None)
        self._work.queue_changed()

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Limit how many jobs of a queue run at once."""

        async def limit(db: Any) -> None:
            await db.execute(self._sql.limit_queue, name, concurrency)
            await db.execute(self._sql.adopt_running_in_queue, name)

        if concurrency is not None:
            await self._database.execute(self._sql.count_queue, name)
            await self._database.execute(self._sql.wait_for_claims)
        await self._database.run(limit)
        self._work.queue_changed()

    async def is_restricted(self, name: str) -> bool:
        """Return whether a queue is paused or has a limit."""
        return await self._database.fetchrow(self._sql.is_held, name) is not None

    async def count_ahead(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the jobs that will be claimed before this one."""
        priority = priority_in_lanes(job.priority)
        named = {kind_in_lanes(job.kind, job.version), *kinds}
        values = (list(named), job.queue, priority, job.tenant, job.id, most, job.priority)
        row = await self._database.fetchrow(self._sql.ahead_of, *values)
        return int(row[0])
