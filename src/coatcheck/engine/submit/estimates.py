"""Estimates for `Retry-After`: recent run times of a kind, and the length of its queue.

The numbers are read from the store at most every few seconds, and only while there are requests for
estimates. An estimate uses the last reading and returns at once, because a submit must not wait for
it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Mapping

from coatcheck.clock import Clock
from coatcheck.engine.maintenance.metrics import RUN_TIME
from coatcheck.errors import StoreError
from coatcheck.model.job import Job, JobInsert
from coatcheck.model.state import State
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

REFRESH_S = 2.0
# A slow reading is repeated less often: reading takes at most this share of the time.
SHARE = 0.02
SHORTEST_S, LONGEST_S = 1, 300
# The assumed duration of a kind without data.
UNKNOWN_S = 1.0

_TOTAL = re.compile(rf'{RUN_TIME}_(ms|count)\{{kind="([^"]+)"\}}')


class Estimates:
    """The durations and queue lengths that one process has read."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen: dict[str, tuple[int, int]] = {}  # kind -> (milliseconds, runs) so far
        self._takes_s: dict[str, float] = {}
        self._ready: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        self._next_reading = 0.0
        self._reading: asyncio.Task[None] | None = None

    def retry_after(self, job: Job | JobInsert) -> int:
        """Return in how many seconds a client should ask about a job again."""
        self._refresh()
        if isinstance(job, Job) and job.state is State.RUNNING:
            seconds = self._until_it_ends(job)
        else:
            seconds = self._until_it_has_run(job)
        return max(SHORTEST_S, min(LONGEST_S, math.ceil(seconds)))

    def seconds_left(self, job: Job) -> int | None:
        """Return in how many seconds a job is expected to finish, or None if that is unknown.

        The estimate uses the job's progress, or the run time of other jobs of its kind.
        """
        self._refresh()
        ran = (self._clock.now() - (job.started_at or job.run_at)) / 1000
        seconds: float | None = None
        match job.state:
            case State.RUNNING if (share := _share_done(job)) is not None:
                seconds = ran / share - ran
            case State.RUNNING if (takes := self._takes_s.get(job.kind)) is not None:
                seconds = takes - ran if ran < takes else None
            case State.QUEUED if job.kind in self._takes_s:
                seconds = self._until_it_has_run(job)
        return None if seconds is None else math.ceil(seconds)

    def _refresh(self) -> None:
        now = self._clock.monotonic()
        if now >= self._next_reading and self._reading is None:
            self._next_reading = now + REFRESH_S
            self._reading = asyncio.create_task(self._read(), name="coatcheck-estimates")

    def takes_s(self, kind: str) -> float | None:
        """Return the recent average run time of a kind in seconds, or None if none has run."""
        return self._takes_s.get(kind)

    def _until_it_ends(self, job: Job) -> float:
        takes = self._takes_s.get(job.kind, UNKNOWN_S)
        ran = (self._clock.now() - (job.started_at or job.run_at)) / 1000
        # Already longer than usual: the next check comes after a time that grows with its age.
        return takes - ran if ran < takes else ran / 4

    def _until_it_has_run(self, job: Job | JobInsert) -> float:
        takes = self._takes_s.get(job.kind, UNKNOWN_S)
        turns = self._ready.get(job.queue, 0) / max(1, self._slots.get(job.kind, 1)) + 1
        delay = job.run_at - self._clock.now()
        return turns * takes + (delay / 1000 if delay > 0 else 0)

    async def _read(self) -> None:
        began = self._clock.monotonic()
        try:
            self._learn(await self._store.maintenance.read_counters())
            self._ready = {
                queue.name: queue.ready for queue in await self._store.queues.list_queues()
            }
            slots: dict[str, int] = {}
            for worker in await self._store.workers.list_workers():
                for kind in worker.info.kinds:
                    slots[kind] = slots.get(kind, 0) + worker.info.slots
            self._slots = slots
        except StoreError:
            log.debug("estimate data not read")
        finally:
            took = self._clock.monotonic() - began
            self._next_reading = began + max(REFRESH_S, took / SHARE)
            self._reading = None

    def _learn(self, counters: Mapping[str, int]) -> None:
        totals: dict[str, dict[str, int]] = {}
        for name, value in counters.items():
            if found := _TOTAL.fullmatch(name):
                totals.setdefault(found[2], {})[found[1]] = value
        for kind, total in totals.items():
            milliseconds, runs = total.get("ms", 0), total.get("count", 0)
            before_ms, before_runs = self._seen.get(kind, (0, 0))
            if runs > before_runs:
                lately = (milliseconds - before_ms) / (runs - before_runs) / 1000
                known = self._takes_s.get(kind, lately)
                self._takes_s[kind] = (known + lately) / 2
            self._seen[kind] = (milliseconds, runs)


def _share_done(job: Job) -> float | None:
    """Return the share of its work that a job reports as done; None if that is unknown."""
    progress = job.progress
    if progress is None or progress.total is None or not 0 < progress.done <= progress.total:
        return None
    return progress.done / progress.total
