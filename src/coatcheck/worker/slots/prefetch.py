"""How many jobs to claim: as many as there are free slots, or more if jobs are short enough.

A claim and a settle cost one commit each, however many jobs they carry. With 16 slots and jobs that
do next to nothing, commits are all the work there is, so the worker then claims more jobs than it
has free slots. Nobody else can claim a prefetched job, so prefetching is limited to what the slots
complete in `AHEAD_S`.

docs/decisions/0006-claiming-ahead.md gives the reasons and the measurements.

The estimate is how long jobs hold a slot, over all kinds, since a claim cannot know which kinds it
will return. By Little's law this also tells how fast the queue shrinks, whatever the cause:
handlers that compute on the shared loop hold their slots while they wait for each other. The
estimate rises fast and falls slowly. If a few jobs in a hundred are long, or none has finished yet,
nothing is prefetched. Slots that have been held for long do not count: they take nothing from the
queue.

Three more bounds keep this fair to other workers:

- Jobs that hold a slot for more than `SHORT_S` are never prefetched. Such slots can be filled as
  fast as they come free, so there is nothing to gain.
- A claim asks for at most twice what the previous claim returned, or for the free slots. After a
  quiet moment it starts with the free slots, which leaves other workers theirs, and grows only
  while there is more to do.
- A prefetched job that has waited longer than `LONGEST_WAIT_S`, or must not wait at all, is
  released. The estimate then rises as if the job had taken that long.
"""

from __future__ import annotations

# The queue should be worked off in this time: a few commits, so that slots never wait for one.
AHEAD_S = 0.020
# Longer jobs are not prefetched: 16 slots that turn over in 5 ms take 3,200 jobs a second.
SHORT_S = 0.005
# A larger claim costs hardly less per job, and delays other writers.
MOST_AHEAD = 256
# Jobs that wait longer are released. Far above AHEAD_S, to tolerate a machine that stalls.
LONGEST_WAIT_S = 0.100
# An older claim says nothing about the next one.
RECENT_S = 0.100
# The weight of one job in the estimate, if it took longer and if it took less.
UP, DOWN = 1 / 4, 1 / 32


class Prefetch:
    """Estimates how fast a worker's slots turn over, and limits claims by that."""

    def __init__(self) -> None:
        self._seconds = AHEAD_S  # how long a job holds a slot; high until measured
        self._last_claim = 0
        self._last_claim_at = 0.0

    def record_run(self, seconds: float) -> None:
        """Record how long a job has held its slot."""
        difference = seconds - self._seconds
        self._seconds += difference * (UP if difference > 0 else DOWN)

    def record_claim(self, jobs: int, now: float) -> None:
        """Record how many jobs a claim has returned."""
        self._last_claim, self._last_claim_at = jobs, now

    def record_release(self) -> None:
        """Record that prefetched jobs had to be released, or would have been."""
        self._seconds = max(self._seconds, LONGEST_WAIT_S)

    def limit(self, *, free: int, moving: int, waiting: int, now: float) -> int:
        """Return how many jobs to claim now.

        `moving` slots are free or have not been held for long; `waiting` jobs are queued already.
        """
        ahead = 0
        if self._seconds <= SHORT_S:
            ahead = int(min(MOST_AHEAD, moving * AHEAD_S / self._seconds))
        if waiting > ahead // 2:
            return 0  # claim many at once rather than one by one
        last_claim = self._last_claim if now - self._last_claim_at < RECENT_S else 0
        return min(free + ahead - waiting, max(free, 2 * last_claim))
