"""The schedules part of the SQLite store."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from coatcheck.model.audit import AuditEntry
from coatcheck.model.schedule import Schedule
from coatcheck.store.base import Topic
from coatcheck.store.schedules import DueSchedules, ScheduleFiring
from coatcheck.store.shared.rows import read_schedule, schedule_row
from coatcheck.store.sqlite import audit as audit_log
from coatcheck.store.sqlite.database.reader import Reader
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from coatcheck.store.sqlite.operations import jobs as job_operations
from coatcheck.store.sqlite.operations.transitions import find


class SQLiteSchedules:
    """The verbs on schedules."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def put_schedule(
        self, schedule: Schedule, replaces: str | None, *, audit: AuditEntry | None = None
    ) -> bool:
        """Write a schedule in place of one of its revisions."""
        return await self._writer.write(
            lambda tx: _put(tx, schedule, replaces, audit), Urgency.SUBMIT
        )

    async def get_schedule(self, tenant: str, name: str) -> Schedule | None:
        """Read a schedule."""
        row = await self._reader.one(SQL.schedule, (tenant, name))
        return None if row is None else read_schedule(row)

    async def list_schedules(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[Schedule]:
        """List schedules by name."""
        rows = await self._reader.all(SQL.schedules_after, (tenant, after, limit))
        return [read_schedule(row) for row in rows]

    async def delete_schedule(
        self, tenant: str, name: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a schedule."""
        return await self._writer.write(lambda tx: _delete(tx, tenant, name, audit), Urgency.SUBMIT)

    async def list_due_schedules(self, kinds: Sequence[str], now: int, limit: int) -> DueSchedules:
        """List the due schedules."""
        wanted = json.dumps(sorted(set(kinds)))

        def read(db: apsw.Connection) -> DueSchedules:
            rows = db.execute(SQL.due_schedules, (wanted, now, limit)).fetchall()
            [next_at] = db.execute(SQL.next_schedule, (wanted, now)).fetchone()  # type: ignore[misc]  # always a row
            return DueSchedules([read_schedule(row) for row in rows], next_at)

        return await self._reader.read(read)

    async def fire_schedule(self, firing: ScheduleFiring, now: int) -> int | None:
        """Insert the jobs and advance the schedule."""
        return await self._writer.write(lambda tx: _fire(tx, firing, now), Urgency.SUBMIT)


def _put(tx: Transaction, schedule: Schedule, over: str | None, audit: AuditEntry | None) -> bool:
    if over is None:
        tx.execute(SQL.insert_schedule, schedule_row(schedule))
    else:
        tx.execute(SQL.update_schedule, (*schedule_row(schedule), over))
    if tx.changed() == 0:
        return False
    tx.topics.add(Topic.SCHEDULES)
    audit_log.record(tx, audit)
    return True


def _delete(tx: Transaction, tenant: str, name: str, audit: AuditEntry | None) -> bool:
    tx.execute(SQL.delete_schedule, (tenant, name))
    if tx.changed() == 0:
        return False
    audit_log.record(tx, audit)
    return True


def _fire(tx: Transaction, firing: ScheduleFiring, now: int) -> int | None:
    seen = firing.seen
    row = tx.one(SQL.schedule, (seen.tenant, seen.name))
    if row is None:
        return None
    there = read_schedule(row)
    if there.revision != seen.revision:
        return None
    made = () if firing.unless_running and _is_running(tx, there) else firing.jobs
    job_operations.submit_all(tx, made, now)
    last_job = made[-1].id if made else None
    last_at = firing.last_at if made else None
    tx.execute(
        SQL.move_schedule,
        (
            *(seen.tenant, seen.name, firing.revision),
            *(firing.next_at, last_at, last_job, firing.problem),
        ),
    )
    return len(made)


def _is_running(tx: Transaction, schedule: Schedule) -> bool:
    if schedule.last_job is None:
        return False
    found = find(tx, schedule.tenant, schedule.last_job)
    return found is not None and not found[1].state.is_terminal
