"""How many jobs to claim: the free slots, and more where jobs are so short that it pays.

A claim and a settle cost a commit each, whatever number of jobs they carry. With 16 slots and jobs
that do next to nothing the commits are all the work there is, so the worker then claims ahead of
its slots. What it claims ahead nobody else can take, which is why it must not be much: at most
what its slots get through in `AHEAD_S`.

Why, and what it brought, is in docs/decisions/0006-claiming-ahead.md.

It learns from how long jobs hold a slot, all kinds together, since a claim cannot know what it
will bring. By Little's law that also tells how fast the backlog gets shorter, whatever the cause:
handlers that compute on the one loop hold their slots while they wait for each other. The estimate
goes up fast and comes down slowly: where some jobs in a hundred are long, or none has been seen
yet, nothing is claimed ahead. Slots held for long already do not count: they take nothing from it.

Three more bounds keep it fair to other workers:

- Jobs that hold a slot for more than `SHORT_S` are never claimed ahead. Slots that turn over that
  slowly are filled as fast as they come free, and there is nothing to win.
- A claim asks for at most twice what the claim just before it brought, or for the free slots. So
  after a quiet moment it starts with the slots alone, which leaves the other workers theirs, and
  grows only while there is more to do.
- What has waited longer than `PATIENCE_S`, or must not wait at all, is given back, and the
  estimate is then as bad as if it had.
"""

from __future__ import annotations

# A backlog should be worked off in this time: a few commits, so that handlers never wait for one.
AHEAD_S = 0.020
# Longer jobs are not claimed ahead: 16 slots that turn over in 5 ms take 3,200 jobs a second.
SHORT_S = 0.005
# A claim of more than this costs hardly less a job, and holds up other writers.
MOST_AHEAD = 256
# What waits longer is given back. Far above AHEAD_S: a machine that stumbles is no reason.
PATIENCE_S = 0.100
# A claim longer ago than this says nothing of the next.
LATELY_S = 0.100
# How much of the difference to the estimate is learnt from one job, that was longer or shorter.
UP, DOWN = 1 / 4, 1 / 32


class Prefetch:
    """What a worker knows of how fast its slots turn over."""

    def __init__(self) -> None:
        self._seconds = AHEAD_S  # how long a job holds a slot; too long until learnt otherwise
        self._brought = 0
        self._brought_at = 0.0

    def ended(self, seconds: float) -> None:
        """A job has held its slot this long."""
        difference = seconds - self._seconds
        self._seconds += difference * (UP if difference > 0 else DOWN)

    def claimed(self, jobs: int, now: float) -> None:
        """A claim has brought so many jobs."""
        self._brought, self._brought_at = jobs, now

    def gave_back(self) -> None:
        """Jobs were claimed ahead that should not have been, or there are such jobs about."""
        self._seconds = max(self._seconds, PATIENCE_S)

    def limit(self, *, free: int, moving: int, waiting: int, now: float) -> int:
        """Return how many jobs to claim now, 0 for none: with so many slots free, so many (the
        free ones included) that are not held for long, and so many jobs that wait already.
        """
        ahead = 0
        if self._seconds <= SHORT_S:
            ahead = int(min(MOST_AHEAD, moving * AHEAD_S / self._seconds))
        if waiting > ahead // 2:
            return 0  # rather many at a time than one for one
        brought = self._brought if now - self._brought_at < LATELY_S else 0
        return min(free + ahead - waiting, max(free, 2 * brought))
