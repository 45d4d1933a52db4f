"""Who found every seat taken, and when each comes back.

Only where there are several targets: one of them is free, and the jobs at hand are for models that
only the others have. Each that looks is claimed and goes back to its queue, which costs a write or
two. So they share the looking: the more there are of a model, the later each comes back, and one
seat that becomes free is still found within about a second, by whichever looks next.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# One that stands alone comes back this soon, and nobody later than that.
SOONEST_S = 1.0
LATEST_S = 10.0


class BusyBackoff:
    """The jobs that stand, by their models, as far as this process has seen them."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._due: dict[str, dict[str, float]] = {}

    def turned_away(self, model: str, job_id: str) -> float:
        """Note that a job found no seat; return in how many seconds it should look again."""
        now = self._monotonic()
        others = {
            other: due
            for other, due in self._due.get(model, {}).items()
            # Long due and not seen since: it was cancelled, or another process has it.
            if other != job_id and due + LATEST_S > now
        }
        after = min(LATEST_S, SOONEST_S * (1 + len(others)))
        self._due[model] = {**others, job_id: now + after}
        return after

    def seated(self, model: str, job_id: str) -> None:
        """Forget a job that has found a seat."""
        standing = self._due.get(model)
        if standing is not None:
            standing.pop(job_id, None)
            if not standing:
                del self._due[model]
