"""The schedules part of a store.

Every write gives a schedule a new revision and names the revision it was decided from. Of two
writes that were decided from the same revision, the second changes nothing. So a tick becomes
exactly one job, with any number of servers and no leader:

- Any server reads the due schedules (`list_due_schedules`), decides what to do
  (`model.schedule.due_at`) and requests it with `fire_schedule`.
- In *one* transaction the store compares the revision, inserts the jobs, and advances the schedule
  to its next tick. The second server finds another revision and changes nothing. A crash before
  the commit leaves everything to the next server; after the commit everything is done.
- No server fires an old input, or a paused or deleted schedule, after that change was confirmed.
- The ids of the jobs derive from (tenant, schedule, tick), so even a schedule that was deleted and
  created again cannot have two jobs for one tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.audit import AuditEntry
from coatcheck.model.job import JobInsert
from coatcheck.model.schedule import Schedule


class DueSchedules(NamedTuple):
    """The due schedules, and when the next one is due after those (None: never)."""

    due: list[Schedule]
    next_at: int | None


class ScheduleFiring(NamedTuple):
    """A requested tick of a schedule, based on the revision that was seen."""

    seen: Schedule
    revision: str  # the new one
    jobs: tuple[JobInsert, ...]  # one for each tick, oldest first
    next_at: int | None
    last_at: int | None = None  # the tick of the last job; None: no job is for a tick
    unless_running: bool = False  # insert nothing while the schedule's last job is unfinished
    problem: str | None = None


class ScheduleStore(Protocol):
    """The verbs on schedules."""

    async def put_schedule(
        self, schedule: Schedule, replaces: str | None, *, audit: AuditEntry | None = None
    ) -> bool:
        """Write a schedule in place of its revision `replaces`, or as a new one (None).

        Returns False, with nothing changed, if the current revision is another.
        """
        ...

    async def get_schedule(self, tenant: str, name: str) -> Schedule | None:
        """Read a schedule."""
        ...

    async def list_schedules(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[Schedule]:
        """List schedules by name, after the name `after`."""
        ...

    async def delete_schedule(
        self, tenant: str, name: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a schedule but not its jobs. Returns False if there was none."""
        ...

    async def list_due_schedules(self, kinds: Sequence[str], now: int, limit: int) -> DueSchedules:
        """List the due schedules of these kinds, of all tenants: longest due first, then by tenant
        and name.
        """
        ...

    async def fire_schedule(self, firing: ScheduleFiring, now: int) -> int | None:
        """Insert the jobs and advance the schedule in one transaction. Returns the number of jobs,
        or None, with nothing changed, if the schedule has another revision.
        """
        ...
