"""The position from which claims search, while a search of the whole index is slow.

The index of claimable jobs keeps an entry for every job that was ever in it until vacuum removes
it. A reader with an old snapshot (a backup, a forgotten session) prevents that. A claim then scans
all entries since that snapshot before it reaches the first claimable job.

So the server times each full search: finding and locking, without the commit. While that is quick,
nothing else happens. After two slow searches in a row the *lanes* are read: every (kind, queue,
priority) with a claimable job, and its oldest job. Later claims search only these lanes from there,
and advance the start as they claim. Changes that this could miss:

- Changes by this store are recorded. A job that is submitted or queued again opens its lane or
  moves its start back, even for claims in progress. So does a claim that unlocks jobs which another
  claim may have skipped. After other changes (delayed jobs become due, a worker is removed, a queue
  is resumed, a claim fails) the lanes are discarded, and the next claim searches everywhere.
- Changes by other processes are unknown. A job that they queue before the start, or in an empty
  lane, waits until the lanes expire: after `PATIENCE` times the duration of reading them, and
  `LONGEST_S` at most. So full searches take a small share of the time, however slow they are. If a
  claim found fewer jobs than requested, the workers are woken at that time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# A claim that took longer than this to find and lock its jobs has scanned many dead entries.
SLOW_S = 0.001
SLOW_S_A_JOB = 0.00002
SLOW_LOOKS = 2
PATIENCE = 20.0
LONGEST_S = 10.0

Lane = tuple[str, str, int]  # kind, queue, priority


@dataclass
class ClaimInProgress:
    """A claim in progress: the start of each lane, replaced by the last claimed job once the claim
    has ended; and the jobs made claimable since it began, which it may not have seen.

    If the claim locked more jobs than it claimed, the others are after the last claimed job.
    """

    last: dict[Lane, str]
    opened: dict[Lane, str] = field(default_factory=dict)


@dataclass
class View:
    """The lanes of some kinds, each with the oldest id that may be claimable in it."""

    kinds: tuple[str, ...]
    old_at: float | None = None  # None: the lanes are being read
    begins: dict[Lane, str] = field(default_factory=dict)
    in_progress: list[ClaimInProgress] = field(default_factory=list)

    def columns(self) -> list[list[str] | list[int]]:
        """Return kinds, queues, priorities and starting ids, one list each."""
        lanes = list(self.begins)
        kinds, queues = [lane[0] for lane in lanes], [lane[1] for lane in lanes]
        return [kinds, queues, [lane[2] for lane in lanes], list(self.begins.values())]

    def start(self) -> ClaimInProgress:
        """Record a claim that begins. Pass the returned value to `taken`."""
        claim = ClaimInProgress(dict(self.begins))
        self.in_progress.append(claim)
        return claim

    def taken(self, claim: ClaimInProgress, jobs: Iterable[tuple[Lane, str]]) -> None:
        """Advance the starts to the last claimed jobs, but not past jobs opened meanwhile."""
        self.in_progress = [other for other in self.in_progress if other is not claim]
        for lane, id_ in jobs:
            if lane in self.begins:
                begin = max(id_, self.begins[lane])
                self.begins[lane] = min(begin, claim.opened.get(lane, begin))
            claim.last[lane] = max(id_, claim.last.get(lane, id_))

    def open(self, lane: Lane, id_: str) -> None:
        """Record a job that became claimable."""
        for known in (self.begins, *(claim.opened for claim in self.in_progress)):
            known[lane] = min(id_, known.get(lane, id_))


class ClaimCursor:
    """The lanes to search while a search of the whole index is slow."""

    def __init__(self, slow_s: float = SLOW_S, slow_looks: int = SLOW_LOOKS) -> None:
        self._slow_s = slow_s
        self._slow_looks = slow_looks
        self._slow_so_far = 0
        self._views: dict[tuple[str, ...], View] = {}

    def known(self, kinds: Sequence[str]) -> View | None:
        """Return the lanes to search, or None if the whole index is to be searched."""
        view = self._views.get(tuple(kinds))
        if view is None or view.old_at is None:
            return None
        if time.monotonic() >= view.old_at:
            del self._views[view.kinds]
            return None
        return view

    def is_slow(self, took_s: float, jobs: int) -> bool:
        """Record the duration of a full search. Returns whether full searches have become slow."""
        slow = took_s > self._slow_s + SLOW_S_A_JOB * jobs
        self._slow_so_far = self._slow_so_far + 1 if slow else 0
        return self._slow_so_far >= self._slow_looks

    def reading(self, kinds: Sequence[str]) -> View:
        """Start to record jobs opened in the lanes of these kinds, which are about to be read."""
        view = View(tuple(kinds))
        self._views[view.kinds] = view
        return view

    def read(self, view: View, found: Iterable[Sequence[Any]], took_s: float) -> None:
        """Complete a view with the lanes that were read, and set when it expires."""
        for kind, queue, priority, id_ in found:
            lane = (kind, queue, priority)
            view.begins[lane] = min(id_, view.begins.get(lane, id_))
        view.old_at = time.monotonic() + min(LONGEST_S, PATIENCE * took_s)

    def opened(self, jobs: Iterable[tuple[Lane, str]]) -> None:
        """Record jobs that this store made claimable."""
        if self._views:
            for lane, id_ in jobs:
                for view in self._views.values():
                    if lane[0] in view.kinds:
                        view.open(lane, id_)

    def forget(self) -> None:
        """Discard all views: the next claim searches the whole index."""
        self._views.clear()
