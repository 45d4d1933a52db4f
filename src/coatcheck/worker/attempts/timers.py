"""Timers that interrupt attempts at their timeout or deadline.

Most short jobs never need a timer, and setting and cancelling one costs as much as the rest of a
start. So an attempt gets its timer only after `UNTIMED_S`, unless its timeout is shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from coatcheck.clock import Clock
from coatcheck.worker.attempts.execution import Execution

UNTIMED_S = 0.050


class AttemptTimers:
    """Calls `on_timeout` for each attempt that runs out of time."""

    def __init__(self, clock: Clock, on_timeout: Callable[[Execution], None]) -> None:
        self._clock = clock
        self._on_timeout = on_timeout
        self._loop = asyncio.get_running_loop()
        self._untimed: list[Execution] = []
        self._scheduled = False

    def add(self, started: Iterable[Execution]) -> None:
        """Time attempts that have just started."""
        for execution in started:
            terms = execution.claim.terms
            if terms.deadline_at is not None or terms.timeout_ms < UNTIMED_S * 1000:
                self._start_timer(execution)
            else:
                self._untimed.append(execution)
        if self._untimed and not self._scheduled:
            self._scheduled = True
            self._loop.call_later(UNTIMED_S, self._time_untimed)

    def _time_untimed(self) -> None:
        self._scheduled = False
        untimed, self._untimed = self._untimed, []
        for execution in untimed:
            if not execution.ended_at and execution.interrupted is None:
                self._start_timer(execution)

    def _start_timer(self, execution: Execution) -> None:
        terms = execution.claim.terms
        left = terms.timeout_ms / 1000 - (self._clock.monotonic() - execution.started_at)
        if terms.deadline_at is not None:
            left = min(left, (terms.deadline_at - self._clock.now()) / 1000)
        execution.timer = self._loop.call_later(max(0, left), self._on_timeout, execution)
