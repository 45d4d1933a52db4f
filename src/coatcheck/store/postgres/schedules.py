"""The schedules part of the PostgreSQL store.

A write may be retried after a response was lost. A repeated write is recognized by the revision
that it gave the schedule, and gets the same answer as the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coatcheck.model.audit import AuditEntry
from coatcheck.model.schedule import Schedule
from coatcheck.model.state import State
from coatcheck.store.base import Topic
from coatcheck.store.postgres import audit as audit_log
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.operations.after_commit import WorkNotifier
from coatcheck.store.schedules import DueSchedules, ScheduleFiring
from coatcheck.store.shared.rows import read_schedule, schedule_row


class PostgresSchedules:
    """The verbs on schedules."""

    def __init__(
        self,
        database: Database,
        sql: Statements,
        notifications: Notifications,
        work: WorkNotifier,
    ) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications
        self._work = work

    async def put_schedule(
        self, schedule: Schedule, replaces: str | None, *, audit: AuditEntry | None = None
    ) -> bool:
        """Write a schedule in place of one of its revisions."""
        sql, values = self._sql.insert_schedule, schedule_row(schedule)
        if replaces is not None:
            sql, values = self._sql.update_schedule, (*values, replaces)

        async def put(db: Any) -> bool:
            if (await db.execute(sql, *values)).endswith(" 1"):
                await audit_log.record(db, self._sql, audit)
                return True
            there = await db.fetchrow(self._sql.schedule, schedule.tenant, schedule.name)
            return there is not None and read_schedule(there).revision == schedule.revision

        written = await self._database.run(put)
        if written:
            self._notifications.publish({Topic.SCHEDULES})
        return written

    async def get_schedule(self, tenant: str, name: str) -> Schedule | None:
        """Read a schedule."""
        row = await self._database.fetchrow(self._sql.schedule, tenant, name)
        return None if row is None else read_schedule(row)

    async def list_schedules(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[Schedule]:
        """List schedules by name."""
        rows = await self._database.fetch(self._sql.schedules_after, tenant, after, limit)
        return [read_schedule(row) for row in rows]

    async def delete_schedule(
        self, tenant: str, name: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a schedule."""
        statement = self._sql.delete_schedule
        return await self._database.run(
            lambda db: audit_log.delete(db, self._sql, audit, statement, tenant, name),
            transaction=audit is not None,
        )

    async def list_due_schedules(self, kinds: Sequence[str], now: int, limit: int) -> DueSchedules:
        """List the due schedules."""

        async def read(db: Any) -> DueSchedules:
            rows = await db.fetch(self._sql.due_schedules, list(kinds), now, limit)
            next_at = await db.fetchval(self._sql.next_schedule, list(kinds), now)
            return DueSchedules([read_schedule(row) for row in rows], next_at)

        return await self._database.run(read, transaction=False)

    async def fire_schedule(self, firing: ScheduleFiring, now: int) -> int | None:
        """Insert the jobs and advance the schedule."""
        made = await self._database.run(lambda db: _fire(db, self._sql, firing, now))
        if made:
            self._work.jobs_submitted(firing.jobs)
        return made


async def _fire(db: Any, sql: Statements, firing: ScheduleFiring, now: int) -> int | None:
    seen = firing.seen
    # Other servers wait here, then see the revision that the first one wrote.
    row = await db.fetchrow(sql.lock_schedule, seen.tenant, seen.name)
    if row is None:
        return None
    there = read_schedule(row)
    if there.revision == firing.revision:  # our own write; its response was lost
        return len(firing.jobs) if firing.jobs and there.last_job == firing.jobs[-1].id else 0
    if there.revision != seen.revision:
        return None
    made = () if firing.unless_running and await _is_running(db, sql, there) else firing.jobs
    await job_operations.submit(db, sql, made, now, in_transaction=True)
    last_job = made[-1].id if made else None
    last_at = firing.last_at if made else None
    await db.execute(
        sql.move_schedule,
        *(seen.tenant, seen.name, firing.revision),
        *(firing.next_at, last_at, last_job, firing.problem),
    )
    return len(made)


async def _is_running(db: Any, sql: Statements, schedule: Schedule) -> bool:
    if schedule.last_job is None:
        return False
    state = await db.fetchval(sql.state_of, schedule.tenant, schedule.last_job)
    return state is not None and not State(state).is_terminal
