"""Writing what running jobs say of themselves: together, and a few times a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coatcheck.worker.attempts.execution import Execution

EVERY_S = 0.1


class Reports:
    """Collects the executions that have something to say."""

    def __init__(self, write: Callable[[Execution], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._waiting: list[Execution] = []

    def note(self, execution: Execution) -> None:
        """Have an execution's report written soon; called from the handler's thread."""
        if not execution.report_noted:
            execution.report_noted = True
            self._loop.call_soon_threadsafe(self._add, execution)

    def _add(self, execution: Execution) -> None:
        self._waiting.append(execution)
        if len(self._waiting) == 1:
            self._loop.call_later(EVERY_S, self._write_all)

    def _write_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for execution in waiting:
            execution.report_noted = False
            self._write(execution)
