"""Claiming: jobs in the order of turns.py, as far as the limits leave room.

All of it is one transaction of the only writer, so counting what runs and starting more cannot be
torn apart: limits are exact. What runs is counted from rows; only jobs that a limit counts are in
the indexes that are counted from, and no further than the limit.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from coatcheck.model import transition as rules
from coatcheck.model.job import Claim, Lease, Terms
from coatcheck.model.limit import Limit, millis
from coatcheck.store.base import Claimed, Topic
from coatcheck.store.rows import STANDING_FIELDS, read_standing
from coatcheck.store.sqlite.operation import Transaction
from coatcheck.store.sqlite.statements import SQL
from coatcheck.store.sqlite.transitions import Found, wake, write
from coatcheck.store.turns import (
    BEHIND,
    HIGHEST_PRIORITY,
    SEPARATOR,
    Turns,
    kind_in_lanes,
)

PROMOTE_AT_ONCE = 1_000
# How many more jobs of a lane are read where it turns out to have more than its share.
READ_MORE = 16

_CANDIDATES = SQL.candidates
_NEXT_LANE = SQL.next_lane
_PAYLOAD = SQL.payload


class Line:
    """The lanes of one (kind, queue), at the priority that comes next."""

    __slots__ = ("end", "head", "kind", "level", "limited", "name", "priority", "queue")

    def __init__(self, kind: str, head: str, limited: bool) -> None:
        self.kind = kind
        self.name, self.queue, _ = head.split(SEPARATOR, 2)
        self.limited = limited
        self.move(head)

    def move(self, head: str) -> None:
        """Stand at the priority of a lane, its first."""
        _, _, code, _ = head.split(SEPARATOR, 3)
        self.priority = HIGHEST_PRIORITY - int(code)
        level = f"{self.name}{SEPARATOR}{self.queue}{SEPARATOR}{code}"
        self.head, self.level, self.end = head, level + SEPARATOR, level + BEHIND


class Rooms:
    """What is left of every limit that has been asked for, less what this claim has taken."""

    def __init__(self, tx: Transaction, limits: Mapping[str, Limit], now: int) -> None:
        self._tx = tx
        self._limits = limits
        self._now = now
        self._left: dict[tuple[str, ...], int] = {}
        self._free_at: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self.queues: dict[str, int] = {}
        self.closed: set[str] = set()
        for name, paused, concurrency in tx.all(SQL.held_queues):
            if paused:
                self.closed.add(name)
            elif concurrency is not None:
                self.queues[name] = concurrency

    def counts(self, kind: str, queue: str) -> bool:
        """Tell whether a running job of these counts for a limit."""
        limit = self._limits.get(kind)
        return queue in self.queues or (limit is not None and limit.concurrency is not None)

    def is_limited(self, kind: str, queue: str) -> bool:
        """Tell whether there is any limit for these."""
        return kind in self._limits or queue in self.queues

    def is_full(self, kind: str, queue: str) -> bool:
        """Tell whether no job of a (kind, queue) may start, whatever its key."""
        if queue in self.queues and self._of_queue(queue) <= 0:
            return True
        limit = self._limits.get(kind)
        if limit is None:
            return False
        if limit.concurrency is not None and not limit.by_key and self._of_kind(kind) <= 0:
            return True
        return limit.rate is not None and self._of_rate(kind) <= 0

    def is_key_full(self, kind: str, tenant: str, key: str) -> bool:
        """Tell whether no job of a key may start."""
        limit = self._limits.get(kind)
        if limit is None or not limit.by_key or limit.concurrency is None or not key:
            return False
        place = ("key", kind, tenant, key)
        if place not in self._left:
            sql, values = SQL.running_of_key, (kind, tenant, key, limit.concurrency)
            self._left[place] = limit.concurrency - self._tx.one(sql, values)[0]
        return self._left[place] <= 0

    def take(self, kind: str, queue: str, tenant: str, key: str) -> None:
        """Note that a job starts."""
        places = (("queue", queue), ("kind", kind), ("rate", kind), ("key", kind, tenant, key))
        for place in places:
            if place in self._left:
                self._left[place] -= 1
        if ("rate", kind) in self._left:
            self._started[kind] = self._started.get(kind, 0) + 1

    def write_rates(self) -> None:
        """Write when kinds with a rate may start their next."""
        for kind, starts in self._started.items():
            rate = self._limits[kind].rate
            if rate is not None:
                self._free_at[kind] = rate.after(self._free_at[kind], self._now, starts)
                self._tx.execute(SQL.put_rate, (kind, self._free_at[kind]))

    def next_start(self) -> int | None:
        """Return when the first kind may start again that has used up its rate."""
        waits = [
            millis(free_at)
            for kind, free_at in self._free_at.items()
            if self._left["rate", kind] <= 0
        ]
        return min(waits, default=None)

    def _of_queue(self, queue: str) -> int:
        place = ("queue", queue)
        if place not in self._left:
            most = self.queues[queue]
            self._left[place] = most - self._tx.one(SQL.running_of_queue, (queue, most))[0]
        return self._left[place]

    def _of_kind(self, kind: str) -> int:
        place = ("kind", kind)
        if place not in self._left:
            most = self._limits[kind].concurrency or 0
            self._left[place] = most - self._tx.one(SQL.running_of_kind, (kind, most))[0]
        return self._left[place]

    def _of_rate(self, kind: str) -> int:
        place, rate = ("rate", kind), self._limits[kind].rate
        if place not in self._left and rate is not None:
            row = self._tx.one(SQL.rate, (kind,))
            self._free_at[kind] = 0 if row is None else row[0]
            self._left[place] = rate.allowed(self._free_at[kind], self._now)
        return self._left[place]


class Choosing:
    """One claim's way through the lanes."""

    def __init__(
        self, tx: Transaction, turns: Turns, who: Sequence[str], rooms: Rooms, now: int
    ) -> None:
        self._tx = tx
        self._turns = turns
        self._who = tuple(who)
        self._rooms = rooms
        self._now = now

    def choose(self, lines: list[Line], limit: int) -> Iterator[tuple[Line, Any]]:
        """Go through the priorities; give each job and the line it stands in."""
        taken = 0
        while lines and taken < limit:
            priority = max(line.priority for line in lines)
            level = [line for line in lines if line.priority == priority]
            for line, row in self._take_turns(level, priority, limit - taken):
                taken += 1
                yield line, row
            if taken < limit:
                for line in level:
                    head = self._next_lane(line.end, f"{line.name}{SEPARATOR}{line.queue}{BEHIND}")
                    if head is None:
                        lines.remove(line)
                    else:
                        line.move(head)

    def _take_turns(
        self, level: list[Line], priority: int, room: int
    ) -> Iterator[tuple[Line, Any]]:
        place = (self._who, priority)
        tenants = self._tenants(level, self._turns.after(place))
        waiting = list(islice(tenants, room))
        # Nobody needs to be asked for more than the share that is left if all have enough.
        share = -(-room // max(1, len(waiting)))
        more: deque[tuple[str, Iterator[tuple[Line, Any]]]] = deque()
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
                self._turns.had(place, tenant)
                yield job

    def _next_open(self, source: Iterator[tuple[Line, Any]]) -> tuple[Line, Any] | None:
        """Take the next of a tenant's jobs that no limit holds back by now."""
        for line, row in source:
            tenant, key = row[2], row[3] or ""
            if line.limited:
                if self._is_full(line, tenant, key):
                    continue
                self._rooms.take(line.kind, line.queue, tenant, key)
            self._turns.had(line.level + tenant + SEPARATOR, key)
            return line, row
        return None

    def _is_full(self, line: Line, tenant: str, key: str) -> bool:
        rooms = self._rooms
        return rooms.is_full(line.kind, line.queue) or rooms.is_key_full(line.kind, tenant, key)

    def _tenants(
        self, level: list[Line], after: str | None
    ) -> Iterator[tuple[str, list[tuple[Line, str]]]]:
        """Give the tenants in turn, each with the first of its lanes in every line."""
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
        self, heads: Sequence[tuple[Line, str | None]]
    ) -> Iterator[tuple[str, list[tuple[Line, str]]]]:
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
        self, tenant: str, lanes: list[tuple[Line, str]], share: int
    ) -> Iterator[tuple[Line, Any]]:
        sources = [self._of_line(line, tenant, lane, share) for line, lane in lanes]
        if len(sources) == 1:
            return sources[0]
        return heapq.merge(*sources, key=lambda job: job[1][1])

    def _of_line(
        self, line: Line, tenant: str, first: str, share: int
    ) -> Iterator[tuple[Line, Any]]:
        """Give the jobs of a tenant in one line, its keys in turn."""
        place = line.level + tenant + SEPARATOR
        lanes = self._lanes(place, line.level + tenant + BEHIND, first)
        begin, second = next(lanes), next(lanes, None)
        if second is None:
            yield from self._of_lane(line, place, begin, share)
            return
        sources: deque[Iterator[tuple[Line, Any]]] = deque()
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
        """Give the lanes of a tenant in a line, from the one after that which had its turn."""
        after = self._turns.after(place)
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

    def _of_lane(self, line: Line, place: str, lane: str, share: int) -> Iterator[tuple[Line, Any]]:
        tenant, key = place.rsplit(SEPARATOR, 2)[1], lane[len(place) :]
        last = ""
        while not (line.limited and self._is_full(line, tenant, key)):
            rows = self._tx.all(_CANDIDATES, (lane, last, self._now, share))
            for row in rows:
                yield line, row
            if len(rows) < share:
                return
            last, share = rows[-1][1], READ_MORE

    def _next_lane(self, after: str, end: str) -> str | None:
        row = self._tx.one(_NEXT_LANE, (after, end))
        return None if row is None else row[0]


def claim(
    tx: Transaction,
    turns: Turns,
    worker_id: str,
    kinds: Sequence[str],
    limit: int,
    now: int,
    limits: Mapping[str, Limit],
    versions: Mapping[str, str],
) -> Claimed:
    """Hand jobs to a worker."""
    if tx.one(SQL.worker_beats, (worker_id,)) is None:
        return Claimed([], None)
    next_due = _promote(tx, now)
    if limit <= 0:
        return Claimed([], next_due)
    rooms = Rooms(tx, limits, now)
    wanted = sorted(set(kinds))
    named = {kind: kind for kind in wanted}
    named.update({kind_in_lanes(kind, versions[kind]): kind for kind in wanted if kind in versions})
    lines = []
    for name, head in tx.all(SQL.lanes, (json.dumps(list(named)),)):
        kind = named[name]
        queue = head.split(SEPARATOR, 2)[1]
        if queue not in rooms.closed and not rooms.is_full(kind, queue):
            lines.append(Line(kind, head, rooms.is_limited(kind, queue)))
    choosing = Choosing(tx, turns, wanted, rooms, now)
    # All are chosen before the first is taken: reading on in a lane must not meet changed rows.
    chosen = list(choosing.choose(lines, limit))
    claims = [_take(tx, worker_id, line, row, now) for line, row in chosen]
    for line, row in chosen:
        counts, version = rooms.counts(line.kind, line.queue), versions.get(line.kind)
        if counts or version is not None:
            tx.execute(SQL.begin_limited, (counts, version, row[7]))
    if claims:
        tx.topics.add(Topic.CHANGES)
    rooms.write_rates()
    times = [at for at in (next_due, rooms.next_start()) if at is not None]
    return Claimed(claims, min(times, default=None))


def _tenant(lane: str) -> str:
    return lane.split(SEPARATOR, 4)[3]


def _promote(tx: Transaction, now: int) -> int | None:
    """Make claimable what has become due, and return when the next will be."""
    delayed, waiting = tx.one(SQL.next_due)
    if delayed is not None and delayed <= now:
        tx.execute(SQL.promote_due, (now, PROMOTE_AT_ONCE))
    elif waiting is None or waiting > now:
        return _earliest(delayed, waiting)
    for tenant, job_id in tx.all(SQL.waiting_due, (now, PROMOTE_AT_ONCE)):
        wake(tx, tenant, job_id, now)
    return _earliest(*tx.one(SQL.next_due))


def _earliest(delayed: int | None, waiting: int | None) -> int | None:
    times = [at for at in (delayed, waiting) if at is not None and at != rules.NEVER]
    return min(times, default=None)


def _take(tx: Transaction, worker_id: str, line: Line, row: Any, now: int) -> Claim:
    _, job_id, tenant, _, surface, correlation_id, traceparent, rowid = row[:8]
    standing = read_standing(row[8 : 8 + STANDING_FIELDS])
    terms = Terms(*row[8 + STANDING_FIELDS :])
    taken = rules.claimed(standing, worker_id, now)
    write(tx, tenant, job_id, Found(rowid, standing, terms), taken, now)
    return Claim(
        lease=Lease(tenant, job_id, taken.standing.fence),
        kind=line.kind,
        surface=surface,
        queue=line.queue,
        input=tx.one(_PAYLOAD, (tenant, job_id, "input"))[0],
        attempt=taken.standing.attempt,
        terms=terms,
        run_at=standing.run_at,
        correlation_id=correlation_id,
        traceparent=traceparent,
    )
