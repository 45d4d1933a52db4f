"""Claims with fairness: jobs in lanes take turns, or there are limits.

The order and the limits are those of store/shared/fairness.py and limits.py, which read lanes, jobs
and counts as if they were local. Here they are on a server. So they are fetched ahead, many in one
statement, and the choice is made from the fetched rows. If it needs more, that is fetched and the
choice starts over. The choice is quick, and usually the first fetch is enough.

Limits are exact: a claim that may start jobs of a limit holds the limit's advisory lock from before
it counts until its commit, so claims of the same limit are serialized and each sees the jobs that
the previous one started. Locks are acquired in the order of their names, before any row, and no
claim waits for a row. Claims without a limit acquire no lock.

Jobs are locked as they are fetched. Jobs that were not claimed are unlocked by the commit, and the
workers are notified, since another claim may have skipped them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.store.postgres.claims.fast_claim import Crowd
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.fairness import (
    BEHIND,
    SEPARATOR,
    JobPicker,
    LaneHead,
    RoundRobin,
    names_in_lanes,
    plain_lane,
    read_plain_lane,
)
from coatcheck.store.shared.lane_cache import CacheMiss, LaneCache
from coatcheck.store.shared.limits import LimitBudget

# The most lanes fetched at a time.
MOST_LANES = 64
# The most rotation positions of one claim that the next claim fetches with its lanes.
MOST_PLACES = 16


class MissingJobs(Exception):
    """The jobs of a lane have not been fetched."""

    def __init__(self, lane: str, after: str, most: int) -> None:
        self.lane, self.after, self.most = lane, after, most


class MissingKeys(Exception):
    """The number of running jobs with a limit key has not been fetched."""


@dataclass
class Heads:
    """The first jobs of a lane, as far as fetched."""

    rows: list[Any] = field(default_factory=list)
    complete: bool = False


class FetchedJobs:
    """Lanes, jobs and counts, as far as fetched."""

    def __init__(self) -> None:
        self.runs = LaneCache()
        self.next_lane = self.runs.next_lane
        self.heads: dict[str, Heads] = {}
        self.running: dict[tuple[str, ...], int] = {}

    def jobs(self, lane: str, after: str, most: int) -> Sequence[Any]:
        """Return the oldest jobs of a lane."""
        heads = self.heads.get(lane)
        if heads is None:
            raise MissingJobs(lane, after, most)
        rows = [row for row in heads.rows if row[1] > after][:most]
        if len(rows) < most and not heads.complete:
            raise MissingJobs(lane, after, most)
        return rows

    def of_kind(self, kind: str, most: int) -> int:  # noqa: ARG002 - applied by the query
        """Return the number of running jobs of a kind."""
        return self.running["kind", kind]

    def of_queue(self, queue: str, most: int) -> int:  # noqa: ARG002
        """Return the number of running jobs of a queue."""
        return self.running["queue", queue]

    def of_key(self, kind: str, tenant: str, key: str, most: int) -> int:  # noqa: ARG002
        """Return the number of running jobs with a limit key."""
        try:
            return self.running["key", kind, tenant, key]
        except KeyError:
            raise MissingKeys from None

    def rate(self, kind: str) -> int:
        """Return when the rate of a kind allows its next start."""
        return self.running.get(("rate", kind), 0)

    def lanes(self) -> set[str]:
        """Return all fetched lanes."""
        return {lane for run in self.runs.all for lane in run.lanes}


class ChosenJobs(NamedTuple):
    """The result of a fair claim."""

    rows: list[Any]  # of `claim`, in order; empty if the worker is not registered
    due: bool  # due jobs must be promoted first; nothing was claimed
    next_start: int | None
    locked: int


class FairClaimer:
    """The rotation of lanes, for the claims of one store."""

    def __init__(self) -> None:
        self.turns = RoundRobin()
        # By kinds: whether the last claim needed fairness. If there is an entry, the check over all
        # kinds was positive, if only because of other kinds; the next claim checks its own kinds.
        self._crowded: dict[tuple[str, ...], bool] = {}
        self._places: dict[tuple[str, ...], list[tuple[str, str]]] = {}

    def is_crowded(self, kinds: Sequence[str]) -> bool:
        """Return whether the last claim of these kinds needed fairness."""
        return self._crowded.get(tuple(sorted(set(kinds))), False)

    def crowd(
        self, kinds: Sequence[str], limits: Mapping[str, Limit], versions: Mapping[str, str]
    ) -> Crowd:
        """Return the conditions under which a claim needs fairness."""
        in_turn = list({*limits, *versions})
        names = list(names_in_lanes(kinds, versions)) if versions else list(kinds)
        closely = bool(in_turn) or (
            bool(self._crowded) and tuple(sorted(set(kinds))) in self._crowded
        )
        return Crowd(closely, names, in_turn)

    async def claim(
        self,
        db: Any,
        sql: Statements,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
        held: HeldSlots | None = None,
    ) -> ChosenJobs:
        """Choose jobs and claim them, in the current transaction of `db`."""
        who = tuple(sorted(set(kinds)))
        before = await db.fetchrow(sql.before_turns, who, worker_id)
        if before is None:
            return ChosenJobs([], False, None, 0)
        due, *found = before
        if due is not None and due <= now:
            return ChosenJobs([], True, None, 0)
        plain = sorted(plain_lane(*each) for each in zip(*found[:3], strict=True))
        queues = list(zip(*found[3:], strict=True))
        await self._lock(db, sql, queues, limits)
        claim = _Claim(db, sql, self.turns, who, limit, now, limits, versions, queues, plain, held)
        chosen = await claim.choose(self._places.get(who, []))
        self._places[who] = claim.places[:MOST_PLACES]
        tenants, ids = [row[2] for _, row in chosen], [row[1] for _, row in chosen]
        rows = await db.fetch(
            sql.claim_in_turn,
            worker_id,
            tenants,
            now,
            limit,
            True,
            ids,
            [kind for kind, each in limits.items() if each.concurrency is not None],
            list(claim.rooms.queues),
            json.dumps(dict(versions)),
        )
        if held is None or claim.needs_turns:
            self._crowded[who] = claim.needs_turns
        if rows and rows[0][2] is not None:
            used = claim.rooms.used_rates()
            if used:
                await db.execute(sql.put_rates, list(used), list(used.values()))
            claim.choosing.end()
            place = {key: number for number, key in enumerate(zip(tenants, ids, strict=True))}
            rows = sorted(rows, key=lambda row: place[row[2], row[3]])
        return ChosenJobs(rows, False, claim.rooms.next_start(), claim.locked)

    async def _lock(
        self,
        db: Any,
        sql: Statements,
        queues: Sequence[tuple[str, bool, int | None]],
        limits: Mapping[str, Limit],
    ) -> None:
        names = [f"kind {kind}" for kind in limits]
        names += [f"queue {name}" for name, paused, most in queues if most and not paused]
        if names:
            await db.execute(sql.lock_limits, [f"{sql.schema} {name}" for name in names])


class _Claim:
    """One claim: the rows fetched for it, and the jobs it chose."""

    def __init__(
        self,
        db: Any,
        sql: Statements,
        turns: RoundRobin,
        who: tuple[str, ...],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
        queues: Sequence[tuple[str, bool, int | None]],
        plain: Sequence[str],
        held: HeldSlots | None,
    ) -> None:
        self._held = held
        self._plain = plain
        self._db, self._sql = db, sql
        self._turns, self._who = turns, who
        self._limit, self._now = limit, now
        self._limits, self._queues = limits, queues
        self._names = names_in_lanes(who, versions)
        self._versions = versions
        self._fetched = FetchedJobs()
        self.places: list[tuple[str, str]] = []
        self.needs_turns = False
        self.locked = 0
        self.rooms: LimitBudget
        self.choosing: JobPicker

    async def choose(self, places: Sequence[tuple[str, str]]) -> list[tuple[LaneHead, Any]]:
        """Choose jobs, and fetch missing rows until the choice is complete."""
        await self._fetch_counts()
        if self._limit > 0:
            await self._fetch_lanes(list(self._names), places)
        while True:
            self._begin()
            self.choosing = JobPicker(self._fetched, self._turns, self._who, self.rooms, self._held)
            try:
                return list(self.choosing.choose(self._lines(), self._limit))
            except CacheMiss as missing:
                self.places.append(missing.place)
                await self._fetch_lanes([], [missing.place])
            except MissingKeys:
                await self._fetch_keys()
            except MissingJobs as missing:
                await self._fetch_jobs(missing)

    def _begin(self) -> None:
        self.rooms = LimitBudget(self._fetched, self._queues, self._limits, self._now)

    def _lines(self) -> list[LaneHead]:
        lines = []
        for run in self._fetched.runs.all:
            name, *rest = run.begin.split(SEPARATOR)
            if len(rest) != 2 or not run.lanes:
                continue  # only a part of a (kind, queue)
            kind, queue = self._names[name], rest[0]
            limited = self.rooms.is_limited(kind, queue)
            self.needs_turns |= limited or kind in self._versions or self._is_in_lanes(run.lanes)
            if queue not in self.rooms.closed and not self.rooms.is_full(kind, queue):
                lines.append(LaneHead(kind, run.lanes[0], limited))
        return lines

    def _is_in_lanes(self, lanes: Sequence[str]) -> bool:
        return any(lane not in self._plain for lane in lanes)

    async def _fetch_counts(self) -> None:
        limits = self._limits.items()
        kinds = {kind: limit.concurrency for kind, limit in limits if limit.concurrency}
        rates = [kind for kind, limit in limits if limit.rate is not None]
        queues = {name: most for name, paused, most in self._queues if most and not paused}
        if kinds or rates or queues:
            counts = await self._db.fetch(
                self._sql.how_limits_stand,
                list(kinds),
                list(kinds.values()),
                list(queues),
                list(queues.values()),
                rates,
            )
            self._fetched.running = {(what, name): count for what, name, count in counts}

    async def _fetch_lanes(self, names: list[str], places: Sequence[tuple[str, str]]) -> None:
        paused = [name for name, paused, _ in self._queues if paused]
        begins, ends = [place[0] for place in places], [place[1] for place in places]
        rows = await self._db.fetch(
            self._sql.runs_of_lanes, names, begins, ends, paused, min(self._limit, MOST_LANES)
        )
        runs: dict[tuple[str, str], list[str | None]] = {}
        for begin, end, lane in rows:
            runs.setdefault((begin, end), []).append(lane)
        for lane in self._plain if names else ():
            name, queue, _ = lane.split(SEPARATOR, 2)
            if queue not in paused:
                line = f"{name}{SEPARATOR}{queue}"
                runs.setdefault((line + SEPARATOR, line + BEHIND), [None])
        for (begin, end), lanes in runs.items():
            plain = self._plain[bisect_right(self._plain, begin) :]
            self._fetched.runs.add(begin, end, lanes, plain)

    async def _fetch_keys(self) -> None:
        wanted = []
        for lane in self._fetched.lanes():
            name, _, _, tenant, key = lane.split(SEPARATOR, 4)
            kind = self._names[name]
            limit = self._limits.get(kind)
            if key and limit is not None and limit.by_key:
                wanted.append((kind, tenant, key, limit.concurrency))
        columns = [list(column) for column in zip(*set(wanted), strict=True)]
        for kind, tenant, key, count in await self._db.fetch(self._sql.running_of_keys, *columns):
            self._fetched.running["key", kind, tenant, key] = count

    async def _fetch_jobs(self, missing: MissingJobs) -> None:
        """Fetch the jobs of a lane. The first fetch includes the lanes that may be needed next."""
        known = self._fetched.heads.get(missing.lane)
        if known is not None:
            await self._lock_heads(
                {missing.lane: known.rows[-1][1] if known.rows else ""}, missing.most
            )
            return
        unknown = [lane for lane in self._fetched.lanes() if lane not in self._fetched.heads]
        beside = [lane for lane in unknown if self._may_be_next(lane)]
        await self._lock_heads(dict.fromkeys([missing.lane, *beside], ""), missing.most)

    def _may_be_next(self, lane: str) -> bool:
        """Return whether no limit blocks a lane."""
        name, queue, _, tenant, key = lane.split(SEPARATOR, 4)
        kind = self._names[name]
        if queue in self.rooms.closed or self.rooms.is_full(kind, queue):
            return False
        try:
            return not self.rooms.is_key_full(kind, tenant, key)
        except MissingKeys:
            return False

    async def _lock_heads(self, lanes: dict[str, str], most: int) -> None:
        plain = {lane: by for lane in lanes if (by := read_plain_lane(lane)) is not None}
        found: dict[str, list[Any]] = {lane: [] for lane in lanes}
        if plain:
            columns = [list(column) for column in zip(*plain.values(), strict=True)]
            last = [lanes[lane] for lane in plain]
            sql = self._sql.lock_plain_heads
            for kind, queue, *row in await self._db.fetch(sql, *columns, last, most, self._now):
                found[plain_lane(kind, queue, row[0])].append(tuple(row))
        others = {lane: last for lane, last in lanes.items() if lane not in plain}
        if others:
            values = [list(others), list(others.values())]
            for lane, *row in await self._db.fetch(self._sql.lock_heads, *values, most, self._now):
                found[lane].append(tuple(row))
        for lane, new in found.items():
            self.locked += len(new)
            heads = self._fetched.heads.setdefault(lane, Heads())
            heads.rows.extend(new)
            heads.complete = len(new) < most
