"""A cache of lanes that were read ahead: complete ranges of the lane order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from coatcheck.store.shared.fairness import read_plain_lane


class CacheMiss(Exception):
    """The requested part of the lane order is not in the cache."""

    def __init__(self, after: str, end: str) -> None:
        self.place = (after, end)


class CachedLane(NamedTuple):
    """Consecutive lanes after `begin`: all lanes before `end` if complete."""

    begin: str
    end: str
    lanes: list[str]
    complete: bool


class LaneCache:
    """The lanes that were read ahead."""

    def __init__(self) -> None:
        self.all: list[CachedLane] = []

    def add(
        self, begin: str, end: str, read: Sequence[str | None], plain: Iterable[str] = ()
    ) -> None:
        """Add lanes as they were read: the last entry is None if there are no more. Merge in the
        lanes of plain jobs, which are in order and start at the same position.
        """
        lanes = [lane for lane in read if lane is not None]
        complete = read[-1] is None
        known_to = end if complete else lanes[-1]
        among = takewhile(lambda lane: lane < known_to, plain)
        self.all.append(CachedLane(begin, end, sorted([*lanes, *among]), complete))

    def from_(self, lane: str) -> list[str]:
        """Return a lane and the cached lanes that follow it, without lanes of plain jobs."""
        for run in reversed(self.all):
            if lane in run.lanes:
                found = run.lanes[run.lanes.index(lane) :]
                return [each for each in found if read_plain_lane(each) is None]
        return [lane]

    def next_lane(self, after: str, end: str) -> str | None:
        """Return the first lane after `after` and before `end`. Raises CacheMiss."""
        for run in reversed(self.all):
            if not run.begin <= after < (run.end if run.complete else run.lanes[-1]):
                continue
            place = bisect_right(run.lanes, after)
            if place < len(run.lanes):
                return run.lanes[place] if run.lanes[place] < end else None
            if end <= run.end:
                return None
        raise CacheMiss(after, end)
