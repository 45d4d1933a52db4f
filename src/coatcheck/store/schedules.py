"""The part of a store that is about schedules.

Every write gives a schedule a new revision, and names the one it was decided from: of two that were
decided from the same, the second changes nothing. From that follows how a tick becomes exactly one
job, however many servers there are, none of them a leader:

- Any server reads what is due (`due_schedules`), decides what to do (`model.schedule.due_at`) and
  asks for it with `fire_schedule`.
- In *one* transaction the store compares the revision, inserts the jobs, and moves the schedule on
  to its next tick. Whoever comes second finds another revision and changes nothing. A crash before
  the commit has done nothing, and any server does it again; after the commit everything is done.
- No server fires an old input, or a schedule that is paused or deleted, after somebody was told.
- The jobs' ids derive from (tenant, schedule, tick), so that not even a schedule that was deleted
  and made again can have two jobs of one tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.audit import AuditEntry
from coatcheck.model.job import JobInsert
from coatcheck.model.schedule import Schedule


class DueSchedules(NamedTuple):
    """Schedules whose tick has come, and when the next one is due after that (None: none)."""

    due: list[Schedule]
    next_at: int | None


class ScheduleFiring(NamedTuple):
    """What a server wants to become of a schedule as it has seen it."""

    seen: Schedule
    revision: str  # what it becomes
    jobs: tuple[JobInsert, ...]  # of the ticks, oldest first
    next_at: int | None
    last_at: int | None = None  # the tick of the last job; None: none of a tick
    unless_running: bool = False  # make no job while the schedule's last one has not ended
    problem: str | None = None


class ScheduleStore(Protocol):
    """Schedules, as semantic verbs."""

    async def put_schedule(
        self, schedule: Schedule, over: str | None, *, audit: AuditEntry | None = None
    ) -> bool:
        """Write a schedule over the revision `over` of itself, or where there is none (None).
        False: something else is there, and nothing was changed.
        """
        ...

    async def get_schedule(self, tenant: str, name: str) -> Schedule | None:
        """Read a schedule."""
        ...

    async def list_schedules(
        self, tenant: str, after: str = "", limit: int = 100
    ) -> list[Schedule]:
        """List schedules in the order of their names, from the one after `after`."""
        ...

    async def delete_schedule(
        self, tenant: str, name: str, *, audit: AuditEntry | None = None
    ) -> bool:
        """Delete a schedule, not its jobs; False when there was none."""
        ...

    async def due_schedules(self, kinds: Sequence[str], now: int, limit: int) -> DueSchedules:
        """List schedules of these kinds, of all tenants, whose tick has come: the longest due
        first, then by tenant and name.
        """
        ...

    async def fire_schedule(self, firing: ScheduleFiring, now: int) -> int | None:
        """Insert the jobs and move the schedule on, in one transaction; return how many jobs that
        were. None: the schedule is not as it was seen, and nothing was changed.
        """
        ...
