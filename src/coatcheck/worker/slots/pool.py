"""A lane: kinds that share slots, their line, and how many of their jobs to claim.

A worker has one for the handlers on its loop and in threads, and one for those in processes. They
are apart because their slots are: a claim takes what is next of some kinds, so where one claim was
made for both, jobs for processes could fill the slots of the others, or lie in line before them.

Jobs for processes are never claimed ahead of their slots, and a slot is free when the end of its
job is written. They are meant to be long, and a commit more or less is little beside the way to
another process and back. For the same reason a long one cannot be taken back: so that nobody holds
all slots for processes, there is a share of them (`slots_and_share`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from coatcheck.model.kind import Kind
from coatcheck.model.share import HeldSlots, Share
from coatcheck.settings import Settings
from coatcheck.worker.slots.prefetch import AHEAD_S, Prefetch
from coatcheck.worker.slots.slots import HandlerSlots


class SlotPool:
    """Some kinds of a worker, and the slots they share."""

    def __init__(
        self,
        kinds: Iterable[str],
        slots: int,
        clock: Callable[[], float],
        pace: Prefetch | None,
        share: Share | None = None,
    ) -> None:
        self.kinds = sorted(kinds)
        self.slots = slots
        self.backlog = HandlerSlots(slots, clock, until_settled=pace is None)
        self.look = True  # there may be something to claim
        self.look_at = 0.0  # when to look unasked
        self.maybe_more = False  # the last claim brought all that was asked for
        self.found_at = 0.0  # when a claim last brought anything
        self.impatience: asyncio.TimerHandle | None = None
        self._clock = clock
        self._pace = pace  # None: never ahead
        self.share = share  # None: anyone may hold all slots
        self.others = True  # jobs may wait of kinds and tenants that have not reached their share

    def room(self) -> int:
        """Return how many jobs to claim now."""
        if self._pace is None:
            return self.backlog.free - len(self.backlog)
        return self._pace.limit(
            free=self.backlog.free,
            moving=self.slots - self.backlog.running_longer_than(AHEAD_S),
            waiting=len(self.backlog),
            now=self._clock(),
        )

    def held(self) -> HeldSlots | None:
        """Return who holds the slots; None if there is no share of them."""
        return None if self.share is None else HeldSlots(self.share, self.backlog.holders())

    def claimed(self, jobs: int, limit: int) -> None:
        """A claim of up to `limit` has brought so many jobs."""
        self.maybe_more = jobs == limit
        if jobs:
            self.found_at = self._clock()
        if self._pace is not None:
            self._pace.claimed(jobs, self._clock())

    def ended(self, seconds: float) -> None:
        """A job has held its slot this long."""
        if self._pace is not None:
            self._pace.ended(seconds)

    def gave_back(self) -> None:
        """Jobs were claimed ahead that should not have been, or there are such jobs about."""
        if self._pace is not None:
            self._pace.gave_back()


def slots_and_share(most: int, kinds: int, *, exact: bool) -> tuple[int, Share | None]:
    """Return how many slots for processes there are, and what one tenant or kind may hold of them.

    One tenant runs at most so many jobs of one kind. Slots are added to these: one that is left for
    another tenant, and one for another kind if there are several. A worker that is told to run one
    job at a time does that, and its tenants take turns.
    """
    if exact:
        return most, None
    slots = most + (2 if kinds > 1 else 1)
    return slots, Share(most, slots - 1, slots - 1 if kinds > 1 else slots)


def lanes_of(
    kinds: Collection[Kind], settings: Settings, clock: Callable[[], float], pace: Prefetch
) -> dict[str, SlotPool]:
    """Return the lane of each isolation; those without kinds are there and never claim."""
    apart = [kind for kind in kinds if kind.isolation == "process"]
    others = [kind.name for kind in kinds if kind.isolation != "process"]
    most = settings.process_slots(max((kind.slots for kind in apart), default=0))
    shared = SlotPool(others, settings.slots, clock, pace)
    slots, share = slots_and_share(most, len(apart), exact=settings.processes == 1)
    processes = SlotPool([kind.name for kind in apart], slots, clock, None, share)
    return {"async": shared, "thread": shared, "process": processes}
