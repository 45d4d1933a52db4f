"""The maintenance part of the PostgreSQL store. Each operation of the sweep is bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.model import transition as rules
from coatcheck.store.base import Topic
from coatcheck.store.maintenance import SweepResult
from coatcheck.store.postgres import webhooks
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import blobs, commands
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.operations.after_commit import AfterCommit, WorkNotifier

# The most rows that one step of a sweep touches.
SWEEP_LIMIT = 200
USAGE_LIMIT = 20_000
TOMBSTONE_RETENTION_MS = 7 * 86_400_000


class PostgresMaintenance:
    """The verbs of periodic work."""

    def __init__(
        self,
        database: Database,
        sql: Statements,
        notifications: Notifications,
        work: WorkNotifier,
        after_commit: AfterCommit,
    ) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications
        self._work = work
        self._after_commit = after_commit
        self._swept_to = 0

    async def sweep(self, now: int) -> SweepResult:
        """Do a bounded amount of overdue work."""
        most = SWEEP_LIMIT
        expired = await self._finish_overdue(
            await self._database.fetch(self._sql.past_deadline, now, most), rules.expired, now
        )
        long_ago = now - rules.OVERRUN_MS
        overran = await self._finish_overdue(
            await self._database.fetch(self._sql.running_past_deadline, long_ago, most),
            rules.overran,
            now,
        )
        missed = await self._database.fetch(self._sql.missed_wakes, most)
        if missed:
            await self._after_commit.look_again([(row[0], row[1]) for row in missed], now)
        cascading = [
            await self._after_commit.cascade((row[0], row[1]), now)
            for row in await self._database.fetch(self._sql.cascades, most // 10)
        ]
        dropped = await self._database.execute(self._sql.drop_old_inputs, now, most)
        deleted, self._swept_to = await self._database.run(
            lambda db: delete_expired(db, self._sql, self._swept_to, now)
        )
        done = (expired, overran, int(dropped.rpartition(" ")[2]), deleted, len(missed))
        more = most in done or any(cascading)
        return SweepResult(expired=expired + overran, deleted=deleted, more=more)

    async def _finish_overdue(
        self, overdue: Sequence[Sequence[Any]], rule: job_operations.Rule, now: int
    ) -> int:
        if not overdue:
            return 0
        keys = [(row[0], row[1]) for row in overdue]
        finished, effects = await self._database.run(
            lambda db: job_operations.move(db, self._sql, keys, rule, now)
        )
        self._work.forget_lanes()
        await self._after_commit.follow(effects, now)
        # A running job that was failed may have counted for a limit: another can start.
        self._notifications.publish({Topic.WORK, Topic.CHANGES})
        return finished

    async def erase_deleted(self) -> bool:
        """Do nothing: deleted rows are invisible, and vacuum reuses their space."""
        return True

    async def increment_counters(self, deltas: Mapping[str, int]) -> None:
        """Add to counters."""
        await self._database.execute(self._sql.count_up, list(deltas), list(deltas.values()))

    async def read_counters(self) -> dict[str, int]:
        """Read the counters."""
        return {row[0]: row[1] for row in await self._database.fetch(self._sql.all_counters)}


async def delete_expired(db: Any, sql: Statements, after: int, now: int) -> tuple[int, int]:
    """Delete jobs past their retention, from an expiry time on, and other expired rows.

    Returns the number of jobs and the expiry time at which to continue.
    """
    expired = await db.fetch(sql.past_retention, now, SWEEP_LIMIT, after)
    if expired:
        *keys, kinds, _ = job_operations.columns(expired, 4)
        await blobs.remove(db, sql, keys)
        await webhooks.delete_job_deliveries(db, sql, keys)
        await commands.remove(db, sql, keys, kinds, now)
    await db.execute(sql.delete_old_tombstones, now - TOMBSTONE_RETENTION_MS, SWEEP_LIMIT)
    await db.execute(sql.delete_expired_records, now, SWEEP_LIMIT)
    await db.execute(sql.delete_expired_keys, now, SWEEP_LIMIT)
    await db.execute(sql.add_up_usage, USAGE_LIMIT)
    # A full slice is followed by another, which need not scan the rows deleted here.
    return len(expired), expired[-1][3] if len(expired) == SWEEP_LIMIT else 0
