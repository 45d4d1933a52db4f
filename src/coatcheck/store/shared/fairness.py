"""The order in which claims take jobs, the same in every store.

1. Higher priorities first, across all kinds and queues.
2. Within a priority, tenants take turns: one job of each, then the next of each, until the claim is
   full. The next claim continues after the tenant at which this one stopped.
3. Within a tenant, older jobs first. Jobs with a limit key take turns by key: one job of each key
   of a (kind, queue), then the next of each. A job in a queue with a head start counts as that much
   older than it is.

Jobs that a limit (limits.py) or a worker's share (model/share.py) blocks are skipped. A lane is a
sequence of jobs that share everything this order depends on. Its name, defined by the migration
that adds limits, sorts the lanes in the order in which they are considered. No lane is read past
its first job that is not claimed, so a long lane costs as much as a short one.

A *plain* job (default tenant, no key, no version) has no lane in the store. If all jobs are plain
and there are no limits, nothing takes turns, and stores claim them without this module. Otherwise
plain jobs form a lane of the default tenant (`plain_lane`), which the reader merges with the rest.

Each process remembers where its next claim continues. If this position is lost, turns start over.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from coatcheck.ids import ulid_time
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.share import HeldSlots
from coatcheck.store.shared.limits import LimitBudget

PlainLane = tuple[str, str, int]  # kind, queue, priority

SEPARATOR = "\x1f"
VERSION_MARK = "@"
# Sorts right after the separator: prefix + BEHIND sorts after every text with prefix + SEPARATOR.
BEHIND = "\x20"
MOST_REMEMBERED = 10_000
HIGHEST_PRIORITY = 1_000
# How many more jobs of a lane are read if it gets more than its share.
READ_MORE = 16


class RoundRobin:
    """The position of each rotation: tenants within a priority, and limit keys within a tenant."""

    def __init__(self) -> None:
        self._after: dict[object, str] = {}

    def after(self, place: object) -> str | None:
        """Return the tenant or key that had the last turn in a rotation, or None if unknown."""
        return self._after.get(place)

    def had(self, place: object, who: str) -> None:
        """Record the tenant or key that had the last turn in a rotation."""
        if len(self._after) >= MOST_REMEMBERED:
            self._after.clear()
        self._after[place] = who

    def took_plain(self, kinds: Sequence[str], lanes: Iterable[PlainLane]) -> None:
        """Record the turns of a claim of plain jobs, which are claimed without a rotation."""
        who = tuple(sorted(set(kinds)))
        for lane in lanes:
            self.had((who, lane[2]), DEFAULT_TENANT)
            self.had(plain_lane(*lane), "")


def kind_in_lanes(kind: str, version: str | None) -> str:
    """Return the name in lanes of a kind whose jobs started under a version."""
    return kind if version is None else f"{kind}{VERSION_MARK}{version}"


def names_in_lanes(kinds: Sequence[str], versions: Mapping[str, str]) -> dict[str, str]:
    """Map each name that lanes use for these kinds, with and without a version, to its kind."""
    named = {kind: kind for kind in sorted(set(kinds))}
    found = list(named)
    named.update({kind_in_lanes(kind, versions[kind]): kind for kind in found if kind in versions})
    return named


def priority_in_lanes(priority: int) -> str:
    """Return the code of a priority in lane names. Higher priorities sort first."""
    return f"{HIGHEST_PRIORITY - priority:04d}"


def plain_lane(kind: str, queue: str, priority: int) -> str:
    """Return the name of the lane of plain jobs."""
    return SEPARATOR.join((kind, queue, priority_in_lanes(priority), DEFAULT_TENANT, ""))


def read_plain_lane(lane: str) -> PlainLane | None:
    """Return the kind, queue and priority of a lane of plain jobs; None for any other lane."""
    name, queue, code, tenant, key = lane.split(SEPARATOR, 4)
    if tenant != DEFAULT_TENANT or key or VERSION_MARK in name:
        return None
    return name, queue, HIGHEST_PRIORITY - int(code)


def plain_behind(after: str) -> PlainLane | None:
    """Return the kind and queue of a lane position, and the highest priority whose lane of plain
    jobs sorts after that position; None for kinds with a version, which have no plain jobs.
    """
    name, queue, rest = after.split(SEPARATOR, 2)
    if VERSION_MARK in name:
        return None
    if not rest:
        return name, queue, HIGHEST_PRIORITY
    priority = HIGHEST_PRIORITY - int(rest[:4])
    return name, queue, priority if plain_lane(name, queue, priority) > after else priority - 1


class LaneReader(Protocol):
    """A reader of lanes and their claimable jobs."""

    def next_lane(self, after: str, end: str) -> str | None:
        """Return the first lane after `after` and before `end`, in text order."""
        ...

    def jobs(self, lane: str, after: str, most: int) -> Sequence[Any]:
        """Return the oldest jobs of a lane after the id `after`, as rows that begin with priority,
        id, tenant and limit key.
        """
        ...


class LaneHead:
    """The lanes of one (kind, queue) at the priority considered next."""

    __slots__ = ("end", "head", "kind", "level", "limited", "name", "priority", "queue")

    def __init__(self, kind: str, head: str, limited: bool) -> None:
        self.kind = kind
        self.name, self.queue, _ = head.split(SEPARATOR, 2)
        self.limited = limited
        self.move(head)

    def move(self, head: str) -> None:
        """Move to the priority of `head`, which is the first lane of that priority."""
        _, _, code, _ = head.split(SEPARATOR, 3)
        self.priority = HIGHEST_PRIORITY - int(code)
        level = f"{self.name}{SEPARATOR}{self.queue}{SEPARATOR}{code}"
        self.head, self.level, self.end = head, level + SEPARATOR, level + BEHIND


class JobPicker:
    """The selection of jobs for one claim."""

    def __init__(
        self,
        lanes: LaneReader,
        turns: RoundRobin,
        who: Sequence[str],
        rooms: LimitBudget,
        held: HeldSlots | None = None,
    ) -> None:
        self._next_lane = lanes.next_lane
        self._jobs = lanes.jobs
        self._turns = turns
        self._had: dict[object, str] = {}
        self._who = tuple(who)
        self._rooms = rooms
        self._held = None if held is None else held.copy()

    def end(self) -> None:
        """Save the position of each rotation, once the chosen jobs are claimed."""
        for place, who in self._had.items():
            self._turns.had(place, who)

    def _after(self, place: object) -> str | None:
        return self._had[place] if place in self._had else self._turns.after(place)

    def choose(self, lines: list[LaneHead], limit: int) -> Iterator[tuple[LaneHead, Any]]:
        """Yield jobs by descending priority, each with its lane head."""
        taken = 0
        while lines and taken < limit:
            priority = max(line.priority for line in lines)
            level = [line for line in lines if line.priority == priority]
            alone = self._of_only_lane(level, priority, limit - taken)
            source = self._take_turns(level, priority, limit - taken) if alone is None else alone
            for job in source:
                taken += 1
                yield job
            if taken < limit:
                for line in level:
                    head = self._next_lane(line.end, f"{line.name}{SEPARATOR}{line.queue}{BEHIND}")
                    if head is None:
                        lines.remove(line)
                    else:
                        line.move(head)

    def _of_only_lane(
        self, level: list[LaneHead], priority: int, room: int
    ) -> list[tuple[LaneHead, Any]] | None:
        """Return the first jobs of the only lane at a priority, the common case that needs no
        rotation. Returns None if there are several lanes, or if limits are by key.
        """
        line = level[0]
        if self._held is not None or len(level) > 1:
            return None
        if self._next_lane(line.head, line.end) is not None:
            return None
        if line.limited:
            if self._rooms.is_by_key(line.kind):
                return None
            room = min(room, self._rooms.left(line.kind, line.queue))
        rows = self._jobs(line.head, "", room) if room > 0 else ()
        if rows:
            _, _, tenant, limit_key = rows[0][:4]
            key = limit_key or ""
            self._had[self._who, priority] = tenant
            self._had[line.level + tenant + SEPARATOR] = key
            if line.limited:
                for _ in rows:
                    self._rooms.take(line.kind, line.queue, tenant, key)
        return [(line, row) for row in rows]

    def _take_turns(
        self, level: list[LaneHead], priority: int, room: int
    ) -> Iterator[tuple[LaneHead, Any]]:
        place = (self._who, priority)
        tenants = self._tenants(level, self._after(place))
        waiting = list(islice(tenants, room))
        # If every tenant has enough jobs, none needs to give more than this share.
        share = -(-room // max(1, len(waiting)))
        more: deque[tuple[str, Iterator[tuple[LaneHead, Any]]]] = deque()
        arriving = chain(waiting, tenants)
        while room:
            found = next(arriving, None)
            if found is not None:
                tenant = found[0]
                source = self._of_tenant(*found, share)
            elif more:
                tenant, source = more.popleft()
            else:
                return
            job = self._next_open(source)
            if job is not None:
                more.append((tenant, source))
                room -= 1
                self._had[place] = tenant
                yield job

    def _next_open(self, source: Iterator[tuple[LaneHead, Any]]) -> tuple[LaneHead, Any] | None:
        """Return the next job of a tenant that no limit blocks now."""
        for line, row in source:
            tenant, key = row[2], row[3] or ""
            if self._is_full(line, tenant, key):
                continue
            if line.limited:
                self._rooms.take(line.kind, line.queue, tenant, key)
            if self._held is not None:
                self._held.take(line.kind, tenant)
            self._had[line.level + tenant + SEPARATOR] = key
            return line, row
        return None

    def _is_full(self, line: LaneHead, tenant: str, key: str) -> bool:
        if self._held is not None and self._held.is_full(line.kind, tenant):
            return True
        rooms = self._rooms
        return line.limited and (
            rooms.is_full(line.kind, line.queue) or rooms.is_key_full(line.kind, tenant, key)
        )

    def _tenants(
        self, level: list[LaneHead], after: str | None
    ) -> Iterator[tuple[str, list[tuple[LaneHead, str]]]]:
        """Yield the tenants in rotation, each with its first lane in every (kind, queue)."""
        if after is not None:
            heads = [
                (line, self._next_lane(line.level + after + BEHIND, line.end)) for line in level
            ]
            yield from self._tenants_from(heads)
        for tenant, lanes in self._tenants_from([(line, line.head) for line in level]):
            if after is not None and tenant > after:
                return
            yield tenant, lanes

    def _tenants_from(
        self, heads: Sequence[tuple[LaneHead, str | None]]
    ) -> Iterator[tuple[str, list[tuple[LaneHead, str]]]]:
        at = [(line, lane) for line, lane in heads if lane is not None]
        while at:
            tenant = min(_tenant(lane) for _, lane in at)
            here = [(line, lane) for line, lane in at if _tenant(lane) == tenant]
            yield tenant, here
            behind = [(line, lane) for line, lane in at if _tenant(lane) != tenant]
            for line, _ in here:
                lane = self._next_lane(line.level + tenant + BEHIND, line.end)
                if lane is not None:
                    behind.append((line, lane))
            at = behind

    def _of_tenant(
        self, tenant: str, lanes: list[tuple[LaneHead, str]], share: int
    ) -> Iterator[tuple[LaneHead, Any]]:
        sources = [self._of_line(line, tenant, lane, share) for line, lane in lanes]
        if len(sources) == 1:
            return sources[0]
        if self._rooms.has_age_boosts():
            return heapq.merge(*sources, key=self._counted_age)
        return heapq.merge(*sources, key=lambda job: job[1][1])

    def _counted_age(self, job: tuple[LaneHead, Any]) -> tuple[int, str]:
        line, row = job
        return ulid_time(row[1]) - self._rooms.age_boost(line.kind, line.queue), row[1]

    def _of_line(
        self, line: LaneHead, tenant: str, first: str, share: int
    ) -> Iterator[tuple[LaneHead, Any]]:
        """Yield the jobs of a tenant in one (kind, queue), its limit keys in rotation."""
        place = line.level + tenant + SEPARATOR
        lanes = self._lanes(place, line.level + tenant + BEHIND, first)
        begin, second = next(lanes), next(lanes, None)
        if second is None:
            yield from self._of_lane(line, place, begin, share)
            return
        sources: deque[Iterator[tuple[LaneHead, Any]]] = deque()
        for lane in chain((begin, second), lanes):
            source = self._of_lane(line, place, lane, 1)
            job = next(source, None)
            if job is not None:
                sources.append(source)
                yield job
        while sources:
            source = sources.popleft()
            job = next(source, None)
            if job is not None:
                sources.append(source)
                yield job

    def _lanes(self, place: str, end: str, first: str) -> Iterator[str]:
        """Yield a tenant's lanes of a (kind, queue), starting after the one with the last turn."""
        after = self._after(place)
        last = None if after is None else place + after
        lane: str | None
        if last is not None:
            lane = self._next_lane(last, end)
            while lane is not None:
                yield lane
                lane = self._next_lane(lane, end)
        lane = first
        while lane is not None and (last is None or lane <= last):
            yield lane
            lane = None if lane == last else self._next_lane(lane, end)

    def _of_lane(
        self, line: LaneHead, place: str, lane: str, share: int
    ) -> Iterator[tuple[LaneHead, Any]]:
        tenant, key = place.rsplit(SEPARATOR, 2)[1], lane[len(place) :]
        last = ""
        while not self._is_full(line, tenant, key):
            rows = self._jobs(lane, last, share)
            for row in rows:
                yield line, row
            if len(rows) < share:
                return
            last, share = rows[-1][1], READ_MORE


def _tenant(lane: str) -> str:
    return lane.split(SEPARATOR, 4)[3]
