"""The worker's slots, and the claimed attempts that wait for one.

Every attempt passes through here. It is enqueued, starts when a slot is free, and holds that slot
until its handler has really returned. Nothing else starts a handler. So there are never more
running handlers than slots, and attempts start in the order of their claims.

Two kinds of threads call this, under one lock. The worker's loop enqueues, starts and removes
attempts. A runner whose handlers have finished frees their slots and gets the next attempts in the
same call, from its own thread: for short jobs, a round trip through the worker's loop would cost
more than the job. It gets attempts of its own isolation only. If the first in the queue belongs to
another runner, it gets none, and the worker's loop, which learns of the finished handlers anyway,
starts that attempt.

With `until_settled`, a slot stays taken until the outcome of its job is written. Then a worker
never has more jobs in state running than slots. Otherwise it briefly has one more, from a claim
until the settle.

Waiting attempts can still be removed: one that is cancelled, or all of them because they have
waited too long, the worker stops, or it was declared lost. An attempt is either started or removed,
never both: `remove`, `remove_from` and `clear` return attempts that will never start.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable

from coatcheck.model.job import Lease
from coatcheck.worker.attempts.execution import Execution


class HandlerSlots:
    """Slots, and the queue of attempts that wait for them. Thread-safe."""

    def __init__(
        self, slots: int, clock: Callable[[], float], *, until_settled: bool = False
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._until_settled = until_settled
        # Finished attempts that still hold a slot: the kind and tenant by lease.
        self._unsettled: dict[Lease, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._waiting: deque[Execution] = deque()
        self._running: dict[Execution, None] = {}  # in the order of their starts

    def __len__(self) -> int:
        """Return how many attempts wait."""
        return len(self._waiting)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self._slots - len(self._running) - len(self._unsettled)

    def holders(self) -> tuple[tuple[str, str], ...]:
        """Return the kind and tenant of each attempt that holds a slot or waits for one."""
        with self._lock:
            present = (*self._waiting, *self._running)
            return (*map(_holder, present), *self._unsettled.values())

    def enqueue(self, executions: Iterable[Execution]) -> None:
        """Add attempts to the end of the queue."""
        now = self._clock()
        with self._lock:
            for execution in executions:
                execution.claimed_at = now
                self._waiting.append(execution)

    def start_next(self) -> list[Execution]:
        """Start waiting attempts in the free slots, and return them."""
        with self._lock:
            return self._start(self.free, None)

    def finish(self, executions: list[Execution], isolation: str) -> list[Execution]:
        """Free the slots of finished attempts, and return the attempts that start in them."""
        now = self._clock()
        with self._lock:
            for execution in executions:
                execution.ended_at = now
                del self._running[execution]
            if self._until_settled:
                self._unsettled.update((each.claim.lease, _holder(each)) for each in executions)
                return []
            return self._start(len(executions), isolation)

    def free_settled(self, leases: Iterable[Lease]) -> bool:
        """Free slots that were held until their job was settled; return whether there were any."""
        if not self._until_settled:
            return False
        with self._lock:
            before = len(self._unsettled)
            for lease in leases:
                self._unsettled.pop(lease, None)
            return len(self._unsettled) < before

    def remove(self, execution: Execution) -> bool:
        """Remove an attempt from the queue; return False if it has started or was never queued."""
        if execution.started_at:
            return False
        with self._lock:
            try:
                self._waiting.remove(execution)
            except ValueError:
                return False
        return True

    def remove_from(self, predicate: Callable[[Execution], bool]) -> list[Execution]:
        """Remove the first attempt that matches and all behind it; return them in order."""
        with self._lock:
            stay = list(itertools.takewhile(lambda each: not predicate(each), self._waiting))
            out = list(itertools.islice(self._waiting, len(stay), None))
            if out:
                self._waiting = deque(stay)
        return out

    def clear(self) -> list[Execution]:
        """Remove and return all waiting attempts."""
        return self.remove_from(lambda _: True)

    def longest_wait(self) -> float | None:
        """Return how long the first in the queue has waited; None if the queue is empty."""
        with self._lock:
            return self._clock() - self._waiting[0].claimed_at if self._waiting else None

    def count_running_longer_than(self, seconds: float) -> int:
        """Count the slots that have been held for longer than this."""
        before = self._clock() - seconds
        with self._lock:
            count = 0
            for execution in self._running:
                if execution.started_at > before:
                    break
                count += 1
            return count

    def _start(self, most: int, isolation: str | None) -> list[Execution]:
        started: list[Execution] = []
        now = self._clock()
        while self._waiting and len(started) < most:
            if isolation not in (None, self._waiting[0].kind.isolation):
                break
            execution = self._waiting.popleft()
            execution.started_at = now
            self._running[execution] = None
            started.append(execution)
        return started


def _holder(execution: Execution) -> tuple[str, str]:
    return execution.claim.kind, execution.claim.lease.tenant
