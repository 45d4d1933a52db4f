"""The worker's slots, and the jobs it has claimed that wait for one.

Every job passes through here: it is put at the end, taken from the front when a slot is free, and
holds that slot until its handler has really returned. Nothing else starts a handler, so there are
never more at once than slots, and jobs start in the order in which they were claimed.

Two kinds of threads come here, and one lock decides between them. The worker's loop puts, takes
and removes. A runner whose handlers have ended gives their slots back and gets the next jobs in
the same call, from its own thread: for short jobs the way over the worker's loop and back would
cost more than the job. It gets jobs of its own isolation only; when the first in line is for
another runner it gets none, and the worker's loop, which hears of the end anyway, sees to it.

A slot may stay taken until the end of its job is written (`until_settled`). Then no more jobs are
in state running than there are slots, whoever looks; else one more is from its claim until then.

What waits can still be taken out: one job that is cancelled, or all of them, because they have
waited too long, the worker stops, or it was taken for lost. A job is either started or taken out,
never both: what `remove`, `cut` or `clear` has returned is never started.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable

from coatcheck.model.job import Lease
from coatcheck.worker.attempts.execution import Execution


class HandlerSlots:
    """A number of slots, and a line before them."""

    def __init__(
        self, slots: int, clock: Callable[[], float], *, until_settled: bool = False
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._until_settled = until_settled
        # Have ended, and keep their slots: by lease, the kind and the tenant.
        self._unsettled: dict[Lease, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._waiting: deque[Execution] = deque()
        self._running: dict[Execution, None] = {}  # the one that started first is first

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def free(self) -> int:
        """How many slots no job holds."""
        return self._slots - len(self._running) - len(self._unsettled)

    def holders(self) -> tuple[tuple[str, str], ...]:
        """Return the kind and the tenant of each job that holds a slot, or waits for one."""
        with self._lock:
            present = (*self._waiting, *self._running)
            return (*map(_holder, present), *self._unsettled.values())

    def put(self, executions: Iterable[Execution]) -> None:
        """Let these wait, behind the others."""
        now = self._clock()
        with self._lock:
            for execution in executions:
                execution.claimed_at = now
                self._waiting.append(execution)

    def take(self) -> list[Execution]:
        """Return what starts now, for as many slots as are free."""
        with self._lock:
            return self._take(self.free, None)

    def ended(self, executions: list[Execution], isolation: str) -> list[Execution]:
        """Give back the slots of these, and return what starts in their place."""
        now = self._clock()
        with self._lock:
            for execution in executions:
                execution.ended_at = now
                del self._running[execution]
            if self._until_settled:
                self._unsettled.update((each.claim.lease, _holder(each)) for each in executions)
                return []
            return self._take(len(executions), isolation)

    def settled(self, leases: Iterable[Lease]) -> bool:
        """Give back the slots of jobs whose end is written, or will not be; tell whether there were
        any.
        """
        if not self._until_settled:
            return False
        with self._lock:
            before = len(self._unsettled)
            for lease in leases:
                self._unsettled.pop(lease, None)
            return len(self._unsettled) < before

    def remove(self, execution: Execution) -> bool:
        """Take one out of the line; False when it has started, or never was in it."""
        if execution.started_at:
            return False
        with self._lock:
            try:
                self._waiting.remove(execution)
            except ValueError:
                return False
        return True

    def cut(self, where: Callable[[Execution], bool]) -> list[Execution]:
        """Take out the first of which this is true and all behind it, and return them in order."""
        with self._lock:
            stay = list(itertools.takewhile(lambda each: not where(each), self._waiting))
            out = list(itertools.islice(self._waiting, len(stay), None))
            if out:
                self._waiting = deque(stay)
        return out

    def clear(self) -> list[Execution]:
        """Take all out of the line and return them."""
        return self.cut(lambda _: True)

    def longest_wait(self) -> float | None:
        """Return how long the first in line has waited; None when nobody waits."""
        with self._lock:
            return self._clock() - self._waiting[0].claimed_at if self._waiting else None

    def running_longer_than(self, seconds: float) -> int:
        """Return how many slots have been held for longer than this."""
        before = self._clock() - seconds
        with self._lock:
            count = 0
            for execution in self._running:
                if execution.started_at > before:
                    break
                count += 1
            return count

    def _take(self, most: int, isolation: str | None) -> list[Execution]:
        taken: list[Execution] = []
        now = self._clock()
        while self._waiting and len(taken) < most:
            if isolation not in (None, self._waiting[0].kind.isolation):
                break
            execution = self._waiting.popleft()
            execution.started_at = now
            self._running[execution] = None
            taken.append(execution)
        return taken


def _holder(execution: Execution) -> tuple[str, str]:
    return execution.claim.kind, execution.claim.lease.tenant
