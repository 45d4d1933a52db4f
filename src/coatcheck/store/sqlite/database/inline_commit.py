"""The policy for inline commits: a loop may commit as long as such commits are quick.

On a slow disk, the loop would block on the sync. On a busy machine, a thread that does all the work
has used up its time slice when its sync is done, and waits to be scheduled again. Both show in the
duration of a transaction. After a slow transaction, the writer's thread commits for a while:
briefly at first, then longer while each further attempt is slow.
"""

from __future__ import annotations

import time

QUICK_SECONDS = 0.001
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 1.0


class InlineCommitPolicy:
    """A decision, from earlier durations, whether a loop may run the next transaction."""

    def __init__(self) -> None:
        self._again_at = 0.0
        self._pause = FIRST_PAUSE_SECONDS

    def allows(self) -> bool:
        """Return whether a loop may run the next transaction."""
        return time.monotonic() >= self._again_at

    def record(self, began: float, ended: float) -> None:
        """Record the duration of a transaction on a loop."""
        if ended - began <= QUICK_SECONDS:
            self._pause = FIRST_PAUSE_SECONDS
        else:
            self._again_at = ended + self._pause
            self._pause = min(LONGEST_PAUSE_SECONDS, 4 * self._pause)
