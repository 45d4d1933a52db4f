"""Schedules: rules that submit jobs by the clock.

A schedule consists of a `ScheduleDefinition` (which job, and when) and its state: the next tick,
the last tick that became a job, and whether it is paused. Its name identifies it within a tenant.

A *tick* is one moment at which a job is due. `due_at` decides from a schedule and the time alone
which ticks become jobs now. The store makes them durable, once each (`coatcheck.store.schedules`).

A tick is *missed* if no process has fired it for a minute, because none with its kind was running.
`catch_up` decides about missed ticks:

- `latest`: one job, for the last of them; the others are skipped.
- `skip`: no job.
- `all`: a job for each, oldest first, at most for the last thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from coatcheck.ids import derived_ulid
from coatcheck.model.cron import InvalidCron, read_cron

# The label that a schedule's jobs carry.
SCHEDULE_LABEL = "schedule"
DEFAULT_ZONE = "UTC"
SHORTEST_MS = 1_000
LONGEST_MS = 10 * 365 * 86_400_000
MISSED_AFTER_MS = 60_000
CATCH_UP_AT_MOST = 1_000
# Jobs that are inserted in one transaction.
JOBS_AT_ONCE = 100
_HOUR_MS = 3_600_000
_LAST_MOMENT = 253_402_300_799_999  # the end of the year 9999
# How far back to search for the last ticks before a moment, in growing steps.
_LOOKS_BACK_MS = (2 * _HOUR_MS, 48 * _HOUR_MS, 62 * 24 * _HOUR_MS, 5 * 366 * 24 * _HOUR_MS)


class CatchUp(StrEnum):
    """The handling of missed ticks."""

    LATEST = "latest"
    SKIP = "skip"
    ALL = "all"


class Overlap(StrEnum):
    """Whether a tick becomes a job while the previous job has not finished."""

    ALLOW = "allow"
    SKIP = "skip"


class UnknownZone(ValueError):
    """A time zone that is not in the IANA database."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The ticks of a schedule: a cron expression in a time zone, or an interval.

    An interval counts from `start_at`, by default from the creation of the schedule. So its ticks
    do not drift, however late each is fired.
    """

    cron: str | None = None
    every_ms: int | None = None
    start_at: int | None = None
    timezone: str = DEFAULT_ZONE

    def problems(self) -> list[tuple[str, str]]:
        """Return its problems, as (JSON pointer, detail) pairs."""
        found = []
        if (self.cron is None) == (self.every_ms is None):
            found.append(("/cron", "give either a cron expression or an interval"))
        if self.cron is not None:
            try:
                read_cron(self.cron)
            except InvalidCron as error:
                found.append(("/cron", str(error)))
            if self.start_at is not None:
                found.append(("/start_at", "only an interval counts from a start"))
        if self.every_ms is not None and not SHORTEST_MS <= self.every_ms <= LONGEST_MS:
            found.append(("/every_s", "must be between a second and ten years"))
        try:
            zone_of(self.timezone)
        except UnknownZone as error:
            found.append(("/timezone", str(error)))
        return found

    def after(self, moment: int, begun: int) -> int | None:
        """Return the first tick after a moment; None if the calendar ends first.

        `begun` is when the schedule was created.
        """
        if self.every_ms is not None:
            start = begun if self.start_at is None else self.start_at
            tick = start + max(0, (moment - start) // self.every_ms + 1) * self.every_ms
            return tick if tick <= _LAST_MOMENT else None
        assert self.cron is not None
        whole = datetime.fromtimestamp(moment // 1000, UTC)
        found = read_cron(self.cron).after(whole, zone_of(self.timezone))
        return None if found is None else int(found.timestamp()) * 1000

    def upcoming(self, moment: int, begun: int, count: int) -> list[int]:
        """Return the next ticks after a moment."""
        found: list[int] = []
        tick = self.after(moment, begun)
        while tick is not None and len(found) < count:
            found.append(tick)
            tick = self.after(tick, begun)
        return found

    def newest(self, first: int, until: int, begun: int, most: int) -> list[int]:
        """Return the last ticks from `first`, which is a tick, to a moment; at most `most`."""
        if self.every_ms is not None:
            last = first + (until - first) // self.every_ms * self.every_ms
            oldest = max(first, last - (most - 1) * self.every_ms)
            return list(range(oldest, last + 1, self.every_ms))
        for back in (*_LOOKS_BACK_MS, until - first + 1):
            begin = max(first - 1, until - back)
            found = self._between(begin, until, begun)
            if len(found) >= most or begin == first - 1:
                return found[-most:]
        raise AssertionError("unreachable: the last look begins at the first tick")

    def _between(self, begin: int, until: int, begun: int) -> list[int]:
        found: list[int] = []
        tick = self.after(begin, begun)
        while tick is not None and tick <= until:
            found.append(tick)
            tick = self.after(tick, begun)
        return found


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """Which job a schedule submits, and when. `input` and `labels` are JSON texts."""

    name: str
    kind: str
    timing: Timing
    input: str = "null"
    queue: str | None = None
    priority: int = 0
    labels: str = "{}"
    deadline_s: float | None = None
    max_attempts: int | None = None
    catch_up: CatchUp = CatchUp.LATEST
    overlap: Overlap = Overlap.ALLOW


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as the store returns it."""

    tenant: str
    definition: ScheduleDefinition
    declared: bool  # by an app, where it has to be changed
    revision: str  # a new one with every write
    paused: bool
    next_at: int | None  # the next tick; None while it is paused
    last_at: int | None  # the last tick that became a job
    last_job: str | None
    problem: str | None  # why the last tick did not become a job
    created_at: int
    updated_at: int

    @property
    def name(self) -> str:
        """The name, unique within the tenant."""
        return self.definition.name

    def next_after(self, moment: int) -> int | None:
        """Return the first tick after a moment that has not become a job."""
        begin = moment if self.last_at is None else max(moment, self.last_at)
        return self.definition.timing.after(begin, self.created_at)

    def job_id(self, tick: int) -> str:
        """Return the id of a tick's job: always the same, so it cannot be inserted twice."""
        return derived_ulid(tick, self.tenant, self.name, str(tick))


class DueTicks(NamedTuple):
    """The ticks that become jobs now, oldest first, and the next tick."""

    ticks: list[int]
    next_at: int | None


def due_at(schedule: Schedule, now: int) -> DueTicks | None:
    """Return the ticks of a schedule that are due; None if there are none."""
    first = schedule.next_at
    if first is None or first > now:
        return None
    definition, begun = schedule.definition, schedule.created_at
    timing, policy = definition.timing, definition.catch_up
    # If the rules of the time zone have changed, `first` may no longer be a tick.
    if now - first < MISSED_AFTER_MS:
        return DueTicks([first], timing.after(first, begun))
    if policy is CatchUp.ALL and definition.overlap is Overlap.ALLOW:
        ticks = (timing.newest(first, now, begun, CATCH_UP_AT_MOST) or [first])[:JOBS_AT_ONCE]
        return DueTicks(ticks, timing.after(ticks[-1], begun))
    ticks = timing.newest(first, now, begun, 1) or [first]
    if policy is CatchUp.SKIP and now - ticks[-1] >= MISSED_AFTER_MS:
        ticks = []
    return DueTicks(ticks, timing.after(now, begun))


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name; raises UnknownZone."""
    try:
        if name == "localtime":
            raise ZoneInfoNotFoundError  # differs between machines
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(
            f"{name!r} is not a time zone; write its IANA name, such as Europe/Berlin"
        ) from None
