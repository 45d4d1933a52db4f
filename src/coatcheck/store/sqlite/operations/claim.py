"""Claim jobs in the order of store/shared/fairness.py, within the limits.

Usually nothing takes turns and there are no limits. Then the first jobs of every (kind, queue) are
read, and the first of these are claimed. Otherwise the claim goes lane by lane.

A claim is one transaction of the only writer, so counting running jobs and starting more is atomic:
limits are exact. Running jobs are counted from rows. Only jobs that count for a limit are in the
counted indexes, and counting stops at the limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coatcheck.model import transition as rules
from coatcheck.model.job import Claim, Lease, Terms
from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.store.base import ClaimResult, Topic
from coatcheck.store.shared.fairness import (
    BEHIND,
    SEPARATOR,
    JobPicker,
    LaneHead,
    RoundRobin,
    names_in_lanes,
    plain_behind,
    plain_lane,
    read_plain_lane,
)
from coatcheck.store.shared.lane_cache import CacheMiss, LaneCache
from coatcheck.store.shared.limits import LimitBudget
from coatcheck.store.shared.rows import STATUS_FIELDS, read_status
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.database.transaction import Transaction
from coatcheck.store.sqlite.operations.transitions import JobRow, wake, write

PROMOTE_AT_ONCE = 1_000
# The first lanes are read one by one; if a claim needs more, they are read in ranges.
SINGLE_SEEKS = 4
READ_AHEAD = 32

_PLAIN_CANDIDATES = SQL.plain_candidates
_CANDIDATES = SQL.candidates
_NEXT_LANE = SQL.next_lane
_PLAIN_LINES = SQL.plain_lines
_IS_CROWDED = SQL.is_crowded
_PAYLOAD = SQL.payload


class ClaimReader:
    """Lanes and counts, read on demand. If there are many lanes, several are read at once."""

    def __init__(self, tx: Transaction, now: int) -> None:
        self._tx = tx
        self._now = now
        self._runs = LaneCache()
        self._seeks = 0
        self._heads: dict[str, Sequence[Any]] = {}

    def next_lane(self, after: str, end: str) -> str | None:
        """Return the next lane. After the first few calls, read several following lanes at once."""
        self._seeks += 1
        if self._seeks <= SINGLE_SEEKS:
            row = self._tx.one(_NEXT_LANE, (after, end))
            found = [lane for lane in (row and row[0], self.next_plain(after)) if lane is not None]
            return min((lane for lane in found if lane < end), default=None)
        try:
            return self._runs.next_lane(after, end)
        except CacheMiss:
            name, queue, _ = after.split(SEPARATOR, 2)
            all_end = f"{name}{SEPARATOR}{queue}{BEHIND}"
            rows = self._tx.all(SQL.run_of_lanes, (after, all_end, READ_AHEAD))
            self._runs.add(after, all_end, [row[0] for row in rows], self._plain_from(after))
            return self._runs.next_lane(after, end)

    def next_plain(self, after: str) -> str | None:
        """Return the next lane of plain jobs of the same (kind, queue)."""
        behind = plain_behind(after)
        row = None if behind is None else self._tx.one(SQL.next_plain_lane, behind)
        return None if behind is None or row is None else plain_lane(*behind[:2], row[0])

    def _plain_from(self, after: str) -> Iterator[str]:
        lane = self.next_plain(after)
        while lane is not None:
            yield lane
            lane = self.next_plain(lane)

    def jobs(self, lane: str, after: str, most: int) -> Sequence[Any]:
        """Read jobs of a lane. If many lanes give one job each, read the next lanes too."""
        plain = read_plain_lane(lane)
        if plain is not None:
            return self._tx.all(SQL.plain_candidates_of, (*plain, after, self._now, most))
        if most > 1 or after or not self._runs.all:
            return self._tx.all(_CANDIDATES, (lane, after, self._now, most))
        if lane not in self._heads:
            lanes = self._runs.from_(lane)
            self._heads.update(dict.fromkeys(lanes, ()))
            for name, *row in self._tx.all(SQL.heads, (json.dumps(lanes), self._now)):
                self._heads[name] = (row,)
        return self._heads[lane]

    def of_kind(self, kind: str, most: int) -> int:
        """Count running jobs of a kind."""
        return int(self._tx.one(SQL.running_of_kind, (kind, most))[0])

    def of_key(self, kind: str, tenant: str, key: str, most: int) -> int:
        """Count running jobs with a limit key."""
        return int(self._tx.one(SQL.running_of_key, (kind, tenant, key, most))[0])

    def of_queue(self, queue: str, most: int) -> int:
        """Count running jobs of a queue."""
        return int(self._tx.one(SQL.running_of_queue, (queue, most))[0])

    def rate(self, kind: str) -> int:
        """Return when the rate of a kind allows its next start."""
        row = self._tx.one(SQL.rate, (kind,))
        return 0 if row is None else int(row[0])


def claim(
    tx: Transaction,
    turns: RoundRobin,
    worker_id: str,
    kinds: Sequence[str],
    limit: int,
    now: int,
    limits: Mapping[str, Limit],
    versions: Mapping[str, str],
    held: HeldSlots | None = None,
) -> ClaimResult:
    """Claim jobs for a worker."""
    if tx.one(SQL.worker_beats, (worker_id,)) is None:
        return ClaimResult([], None)
    next_due = _promote(tx, now)
    if limit <= 0:
        return ClaimResult([], next_due)
    wanted = json.dumps(sorted(set(kinds)))
    next_start = None
    if limits or versions or held or tx.one(_IS_CROWDED, (wanted,))[0]:
        named = names_in_lanes(kinds, versions)
        claims, next_start = _take_in_turn(
            tx, turns, worker_id, named, limit, now, limits, versions, held
        )
    else:
        claims = _take_first(tx, turns, worker_id, kinds, wanted, limit, now)
    if claims:
        tx.topics.add(Topic.CHANGES)
    times = [at for at in (next_due, next_start) if at is not None]
    return ClaimResult(claims, min(times, default=None))


def _take_first(
    tx: Transaction,
    turns: RoundRobin,
    worker_id: str,
    kinds: Sequence[str],
    wanted: str,
    limit: int,
    now: int,
) -> list[Claim]:
    """Claim the first plain jobs, if there are no other jobs and no limits."""
    heads: list[tuple[str, str, Any]] = []
    for kind, queue in tx.all(_PLAIN_LINES, (wanted,)):
        rows = tx.all(_PLAIN_CANDIDATES, (kind, queue, now, limit))
        heads.extend((kind, queue, row) for row in rows)
    heads.sort(key=lambda head: (-head[2][0], head[2][1]))
    del heads[limit:]
    turns.took_plain(kinds, {(kind, queue, row[0]) for kind, queue, row in heads})
    return [_take(tx, worker_id, *head, now) for head in heads]


def _take_in_turn(
    tx: Transaction,
    turns: RoundRobin,
    worker_id: str,
    named: Mapping[str, str],
    limit: int,
    now: int,
    limits: Mapping[str, Limit],
    versions: Mapping[str, str],
    held: HeldSlots | None,
) -> tuple[list[Claim], int | None]:
    """Claim jobs lane by lane. Also returns when an exhausted rate allows the next start."""
    reading = ClaimReader(tx, now)
    rooms = LimitBudget(reading, tx.all(SQL.held_queues), limits, now)
    lines = []
    for name, head in _first_lanes(tx, reading, list(named)):
        kind = named[name]
        queue = head.split(SEPARATOR, 2)[1]
        if queue not in rooms.closed and not rooms.is_full(kind, queue):
            lines.append(LaneHead(kind, head, rooms.is_limited(kind, queue)))
    choosing = JobPicker(reading, turns, sorted(set(named.values())), rooms, held)
    # Choose all jobs before claiming the first: reading on in a lane must not see changed rows.
    chosen = list(choosing.choose(lines, limit))
    choosing.end()
    claims = [_take(tx, worker_id, line.kind, line.queue, row, now) for line, row in chosen]
    begun: dict[tuple[bool, str | None], list[int]] = {}
    for line, row in () if rooms.count_nothing and not versions else chosen:
        how = (rooms.counts(line.kind, line.queue), versions.get(line.kind))
        begun.setdefault(how, []).append(row[7])
    begun.pop((False, None), None)
    for (counts, version), rowids in begun.items():
        tx.execute(SQL.begin_limited, (counts, version, json.dumps(rowids)))
    for used in rooms.used_rates().items():
        tx.execute(SQL.put_rate, used)
    return claims, rooms.next_start()


def _first_lanes(tx: Transaction, reading: ClaimReader, names: list[str]) -> list[tuple[str, str]]:
    """Return the first lane of every (kind, queue) with claimable jobs."""
    wanted = json.dumps(names)
    found: dict[tuple[str, str], str] = {
        (name, head.split(SEPARATOR, 2)[1]): head for name, head in tx.all(SQL.lanes, (wanted,))
    }
    for line in tx.all(_PLAIN_LINES, (wanted,)):
        head = reading.next_plain(f"{line[0]}{SEPARATOR}{line[1]}{SEPARATOR}")
        if head is not None:
            found[line] = min(head, found.get(line, head))
    return [(name, head) for (name, _), head in found.items()]


def _promote(tx: Transaction, now: int) -> int | None:
    """Make due jobs claimable, and return when the next job is due."""
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


def _take(tx: Transaction, worker_id: str, kind: str, queue: str, row: Any, now: int) -> Claim:
    _, job_id, tenant, _, surface, correlation_id, traceparent, rowid = row[:8]
    status = read_status(row[8 : 8 + STATUS_FIELDS])
    terms = Terms(*row[8 + STATUS_FIELDS :])
    taken = rules.claimed(status, worker_id, now)
    write(tx, tenant, job_id, JobRow(rowid, status, terms, kind), taken, now)
    return Claim(
        lease=Lease(tenant, job_id, taken.status.fence),
        kind=kind,
        surface=surface,
        queue=queue,
        input=tx.one(_PAYLOAD, (tenant, job_id, "input"))[0],
        attempt=taken.status.attempt,
        terms=terms,
        run_at=status.run_at,
        correlation_id=correlation_id,
        traceparent=traceparent,
    )
