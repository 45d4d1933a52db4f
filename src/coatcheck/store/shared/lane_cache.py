"""A cache of lanes that were read ahead: complete ranges of the lane order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from coatcheck.store.shared.fairness import read_plain_lane


class CacheMiss(Exception):
    """What follows in the order of the lanes has not been read."""

    def __init__(self, after: str, end: str) -> None:
        self.place = (after, end)


class CachedLane(NamedTuple):
    """Lanes that follow each other, from behind a place; all before the end, if it is complete."""

    begin: str
    end: str
    lanes: list[str]
    complete: bool


class LaneCache:
    """All that has been read ahead."""

    def __init__(self) -> None:
        self.all: list[CachedLane] = []

    def add(
        self, begin: str, end: str, read: Sequence[str | None], plain: Iterable[str] = ()
    ) -> None:
        """Keep lanes as they were read: with None behind the last, if there were no more. Those of
        plain jobs, in order from the beginning on, are put in among them.
        """
        lanes = [lane for lane in read if lane is not None]
        complete = read[-1] is None
        known_to = end if complete else lanes[-1]
        among = takewhile(lambda lane: lane < known_to, plain)
        self.all.append(CachedLane(begin, end, sorted([*lanes, *among]), complete))

    def from_(self, lane: str) -> list[str]:
        """Return a lane, and those that are known to follow it but are not of plain jobs."""
        for run in reversed(self.all):
            if lane in run.lanes:
                found = run.lanes[run.lanes.index(lane) :]
                return [each for each in found if read_plain_lane(each) is None]
        return [lane]

    def next_lane(self, after: str, end: str) -> str | None:
        """Return the first lane behind one text and before another; raises CacheMiss."""
        for run in reversed(self.all):
            if not run.begin <= after < (run.end if run.complete else run.lanes[-1]):
                continue
            place = bisect_right(run.lanes, after)
            if place < len(run.lanes):
                return run.lanes[place] if run.lanes[place] < end else None
            if end <= run.end:
                return None
        raise CacheMiss(after, end)
