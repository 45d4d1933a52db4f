"""A slot pool: kinds that share slots, and how many of their jobs to claim.

A worker has one pool for handlers on its loop and in threads, and one for handlers in processes. A
claim takes the next jobs of some kinds. If one claim served both pools, jobs for processes could
fill the slots of the others, or delay them in the queue.

Jobs for processes are never prefetched, and their slot is free only once their outcome is written.
They are expected to be long, and one commit more is little beside a round trip to another process.
A long job cannot be taken back either. So that no tenant or kind holds all slots for processes,
each has a share of them (`slots_and_share`).
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
        size: int,
        clock: Callable[[], float],
        prefetch: Prefetch | None,
        share: Share | None = None,
    ) -> None:
        self.kinds = sorted(kinds)
        self.size = size
        self.slots = HandlerSlots(size, clock, until_settled=prefetch is None)
        self.should_claim = True  # jobs may wait
        self.poll_at = 0.0  # when to claim without a wake-up
        self.more_may_wait = False  # the last claim returned as many jobs as it asked for
        self.last_found_at = 0.0  # when a claim last returned a job
        self.wait_timer: asyncio.TimerHandle | None = None
        self._clock = clock
        self._prefetch = prefetch  # None: never claims more than the free slots
        self.share = share  # None: anyone may hold all slots
        self.others_may_wait = True  # jobs of kinds and tenants below their share

    def claim_limit(self) -> int:
        """Return how many jobs to claim now."""
        if self._prefetch is None:
            return self.slots.free - len(self.slots)
        return self._prefetch.limit(
            free=self.slots.free,
            moving=self.size - self.slots.count_running_longer_than(AHEAD_S),
            waiting=len(self.slots),
            now=self._clock(),
        )

    def held_slots(self) -> HeldSlots | None:
        """Return the holders of the slots; None if the pool has no shares."""
        return None if self.share is None else HeldSlots(self.share, self.slots.holders())

    def record_claim(self, jobs: int, limit: int) -> None:
        """Record that a claim of up to `limit` jobs has returned so many."""
        self.more_may_wait = jobs == limit
        if jobs:
            self.last_found_at = self._clock()
        if self._prefetch is not None:
            self._prefetch.record_claim(jobs, self._clock())

    def record_run(self, seconds: float) -> None:
        """Record how long a job has held its slot."""
        if self._prefetch is not None:
            self._prefetch.record_run(seconds)

    def record_release(self) -> None:
        """Record that prefetched jobs had to be released, or would have been."""
        if self._prefetch is not None:
            self._prefetch.record_release()


def slots_and_share(most: int, kinds: int, *, exact: bool) -> tuple[int, Share | None]:
    """Return the number of slots for processes, and the share of one tenant or kind.

    One tenant runs at most `most` jobs of one kind. One more slot is reserved for other tenants,
    and another for other kinds if there are several. If `exact`, there are no extra slots and no
    shares: a worker that runs one job at a time has its tenants take turns.
    """
    if exact:
        return most, None
    slots = most + (2 if kinds > 1 else 1)
    return slots, Share(most, slots - 1, slots - 1 if kinds > 1 else slots)


def make_slot_pools(
    kinds: Collection[Kind], settings: Settings, clock: Callable[[], float], prefetch: Prefetch
) -> dict[str, SlotPool]:
    """Return the pool of each isolation. A pool without kinds never claims."""
    in_process = [kind for kind in kinds if kind.isolation == "process"]
    others = [kind.name for kind in kinds if kind.isolation != "process"]
    most = settings.process_slots(max((kind.slots for kind in in_process), default=0))
    shared = SlotPool(others, settings.slots, clock, prefetch)
    size, share = slots_and_share(most, len(in_process), exact=settings.processes == 1)
    processes = SlotPool([kind.name for kind in in_process], size, clock, None, share)
    return {"async": shared, "thread": shared, "process": processes}
