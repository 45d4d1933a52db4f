"""The remaining budget of limits during one claim.

A store counts running jobs (`LimitCounts`) under a lock that keeps others from starting jobs of the
same limits. Each limit is counted once, when it is first needed, and then decremented with every
job that the claim takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from coatcheck.model.limit import Limit, millis


class LimitCounts(Protocol):
    """Counts of running jobs, each up to its limit, and the times at which rates allow a start."""

    def of_kind(self, kind: str, most: int) -> int:
        """Count running jobs of a kind."""
        ...

    def of_key(self, kind: str, tenant: str, key: str, most: int) -> int:
        """Count running jobs with a limit key."""
        ...

    def of_queue(self, queue: str, most: int) -> int:
        """Count running jobs of a queue."""
        ...

    def rate(self, kind: str) -> int:
        """Return when the rate of a kind allows its next start, in microseconds."""
        ...


class LimitBudget:
    """The remaining budget of each limit that this claim has checked."""

    def __init__(
        self,
        counts: LimitCounts,
        held_queues: Iterable[tuple[str, bool, int | None]],
        limits: Mapping[str, Limit],
        now: int,
    ) -> None:
        self._counts = counts
        self._limits = limits
        self._now = now
        self._left: dict[tuple[str, ...], int] = {}
        self._free_at: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self.queues: dict[str, int] = {}
        self.closed: set[str] = set()
        for name, paused, concurrency in held_queues:
            if paused:
                self.closed.add(name)
            elif concurrency is not None:
                self.queues[name] = concurrency

    @property
    def count_nothing(self) -> bool:
        """Whether there are no limits."""
        return not self._limits and not self.queues

    def counts(self, kind: str, queue: str) -> bool:
        """Return whether a running job of a (kind, queue) counts for a limit."""
        limit = self._limits.get(kind)
        return queue in self.queues or (limit is not None and limit.concurrency is not None)

    def is_limited(self, kind: str, queue: str) -> bool:
        """Return whether a (kind, queue) has any limit."""
        return kind in self._limits or queue in self.queues

    def is_by_key(self, kind: str) -> bool:
        """Return whether the limit of a kind is by key."""
        limit = self._limits.get(kind)
        return limit is not None and limit.by_key

    def has_age_boosts(self) -> bool:
        """Return whether any queue has a head start."""
        return any(limit.age_boosts for limit in self._limits.values())

    def age_boost(self, kind: str, queue: str) -> int:
        """Return the head start of a (kind, queue): how much older its jobs count, in ms."""
        limit = self._limits.get(kind)
        return 0 if limit is None else limit.age_boosts.get(queue, 0)

    def left(self, kind: str, queue: str) -> int:
        """Return how many jobs of a (kind, queue) with a limit that is not by key may start."""
        if self.is_full(kind, queue):
            return 0
        places = (("queue", queue), ("kind", kind), ("rate", kind))
        return min(self._left[place] for place in places if place in self._left)

    def is_full(self, kind: str, queue: str) -> bool:
        """Return whether no job of a (kind, queue) may start, whatever its key."""
        if queue in self.queues and self._of_queue(queue) <= 0:
            return True
        limit = self._limits.get(kind)
        if limit is None:
            return False
        if limit.concurrency is not None and not limit.by_key and self._of_kind(kind) <= 0:
            return True
        return limit.rate is not None and self._of_rate(kind) <= 0

    def is_key_full(self, kind: str, tenant: str, key: str) -> bool:
        """Return whether no job with a limit key may start."""
        limit = self._limits.get(kind)
        if limit is None or not limit.by_key or limit.concurrency is None or not key:
            return False
        place = ("key", kind, tenant, key)
        if place not in self._left:
            running = self._counts.of_key(kind, tenant, key, limit.concurrency)
            self._left[place] = limit.concurrency - running
        return self._left[place] <= 0

    def take(self, kind: str, queue: str, tenant: str, key: str) -> None:
        """Count a job that starts against its limits."""
        places = (("queue", queue), ("kind", kind), ("rate", kind), ("key", kind, tenant, key))
        for place in places:
            if place in self._left:
                self._left[place] -= 1
        if ("rate", kind) in self._left:
            self._started[kind] = self._started.get(kind, 0) + 1

    def used_rates(self) -> dict[str, int]:
        """Return the next allowed start of each kind with a rate that starts jobs in this claim."""
        for kind, starts in self._started.items():
            rate = self._limits[kind].rate
            if rate is not None:
                self._free_at[kind] = rate.after(self._free_at[kind], self._now, starts)
        return {kind: self._free_at[kind] for kind in self._started}

    def next_start(self) -> int | None:
        """Return when the first exhausted rate allows a start. Call `used_rates` first."""
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
            self._left[place] = most - self._counts.of_queue(queue, most)
        return self._left[place]

    def _of_kind(self, kind: str) -> int:
        place = ("kind", kind)
        if place not in self._left:
            most = self._limits[kind].concurrency or 0
            self._left[place] = most - self._counts.of_kind(kind, most)
        return self._left[place]

    def _of_rate(self, kind: str) -> int:
        place, rate = ("rate", kind), self._limits[kind].rate
        if place not in self._left and rate is not None:
            self._free_at[kind] = self._counts.rate(kind)
            self._left[place] = rate.allowed(self._free_at[kind], self._now)
        return self._left[place]
