"""Whether a loop may do a whole turn by itself, commit and all: as long as such turns are quick.

Where the disk is slow a loop would wait for it; and where others compute, whoever does everything
in one thread has used up its share of the processor when its sync is done, and waits for theirs.
Either shows in how long a turn takes. After one that was slow the thread has them all for a while:
at first for a moment, then longer and longer while each try is slow.
"""

from __future__ import annotations

import time

QUICK_SECONDS = 0.001
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 1.0


class InlineCommitPolicy:
    """What is known of the turns that loops did."""

    def __init__(self) -> None:
        self._again_at = 0.0
        self._pause = FIRST_PAUSE_SECONDS

    def __bool__(self) -> bool:
        """Tell whether the next turn may be a loop's."""
        return time.monotonic() >= self._again_at

    def took(self, began: float, ended: float) -> None:
        """A loop has done a turn."""
        if ended - began <= QUICK_SECONDS:
            self._pause = FIRST_PAUSE_SECONDS
        else:
            self._again_at = ended + self._pause
            self._pause = min(LONGEST_PAUSE_SECONDS, 4 * self._pause)
