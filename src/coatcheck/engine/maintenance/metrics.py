"""Counts of what this process does, on their way to the store.

Any process of a system can show the counts of all of them, since they are added up in the store:
a worker opens no port, and still its jobs are seen. Counting costs a dictionary entry; what has
been counted is named and written every few seconds, all at once. A crash loses what was not written
yet: these are numbers for people and alarms, nothing in the engine depends on their being complete.

A count is named the way Prometheus writes it, `name{label="value"}`. Times are counted in
milliseconds and shown in seconds (http/server/metrics.py).
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from coatcheck.clock import Clock
from coatcheck.engine.maintenance.throughput import Throughput
from coatcheck.errors import StoreError
from coatcheck.model.outcome import (
    Cancelled,
    Errored,
    GaveUp,
    Outcome,
    Released,
    Succeeded,
    Waiting,
)
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

FLUSH_S = 2.0
# Upper bounds of the histograms, in milliseconds.
BUCKETS_MS = (5, 25, 100, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 1_800_000, 7_200_000)

SUBMITTED = "jobs_submitted"
STARTED = "jobs_started"
FINISHED = "jobs_finished"
RETRIED = "jobs_retried"
RUN_TIME = "job_run"
WAIT_TIME = "job_wait"
POLLED = "jobs_polled"
LOOKS = "worker_polls"
LOOK_INTERVAL = "worker_poll_interval"
DELIVERIES = "webhook_deliveries"


@dataclass(slots=True)
class Latency:
    """How often and how long something was waited for."""

    seconds: float = 0.0
    count: int = 0

    def add(self, seconds: float) -> None:
        """Add one wait."""
        self.seconds += seconds
        self.count += 1


class Metrics:
    """What one process has counted and not written yet."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.throughput = Throughput(store, clock)
        self._counts: Counter[str] = Counter()
        # Of each histogram and kind: how many in each bucket, and all their milliseconds.
        self._times: dict[tuple[str, str], list[int]] = {}
        self._looks: Counter[str] = Counter()
        self._intervals: dict[str, list[int]] = {}  # of looks, by what came of them
        self._looks_are_news = True  # the first, and those that failed, are written soon
        self.store_latency = Latency()  # of this process alone

    def submitted(self, kind: str, jobs: int = 1) -> None:
        """Count jobs that were taken in."""
        self._counts[_of_kind(SUBMITTED, kind)] += jobs

    def started(self, kind: str, waited_ms: int) -> None:
        """Count an attempt that begins, and how long its job was due."""
        self._counts[_of_kind(STARTED, kind)] += 1
        self._observe(WAIT_TIME, kind, waited_ms)

    def job_polled(self, kind: str) -> None:
        """Count somebody who came back for a job by handing it in again."""
        self._counts[_of_kind(POLLED, kind)] += 1

    def worker_polled(self, outcome: str, interval_s: float) -> None:
        """Count a look for work: `found` some, `nothing`, or `failed`; and observe the poll
        interval that was in force. An idle worker does not write for that: after its first look,
        these go along with other counts.
        """
        self._looks[f'{LOOKS}{{outcome="{outcome}"}}'] += 1
        numbers = self._intervals.setdefault(outcome, _new_histogram())
        _add_to(numbers, round(interval_s * 1000))
        self._looks_are_news |= outcome == "failed"

    def delivered(self, outcome: str) -> None:
        """Count a call of a webhook: delivered, retried (it will be) or failed."""
        self._counts[f'{DELIVERIES}{{outcome="{outcome}"}}'] += 1

    def finished(self, kind: str, queue: str, state: str, ran_ms: int) -> None:
        """Count a job that has ended, and how long its last attempt ran."""
        self._counts[_of_state(FINISHED, kind, state)] += 1
        self.throughput.finished(queue, kind, state)
        self._observe(RUN_TIME, kind, ran_ms)

    def settled(self, kind: str, queue: str, outcome: Outcome, *, last: bool, ran_ms: int) -> None:
        """Count how an attempt ended, the last one or not; what was given back is nothing."""
        match outcome:
            case Succeeded():
                self.finished(kind, queue, "succeeded", ran_ms)
            case Cancelled():
                self.finished(kind, queue, "cancelled", ran_ms)
            case Errored() if not last:
                self.retried(kind)
            case Errored() | GaveUp():
                self.finished(kind, queue, "failed", ran_ms)
            case Released() | Waiting():
                pass

    def retried(self, kind: str) -> None:
        """Count an attempt after which there will be another."""
        self._counts[_of_kind(RETRIED, kind)] += 1

    async def flush(self) -> None:
        """Add what was counted to the store; what cannot be written is dropped."""
        await self.throughput.flush()
        counts, self._counts = self._counts, Counter()
        times, self._times = self._times, {}
        for (name, kind), numbers in times.items():
            counts.update(_of_histogram(name, "kind", kind, numbers))
        if not counts and not (self._looks and self._looks_are_news):
            return
        counts += self._take_looks()
        try:
            await self._store.maintenance.increment_counters(counts)
        except StoreError:
            # Whether it was written is not known: rather too few than twice.
            log.warning("the counts could not be written")

    def _take_looks(self) -> Counter[str]:
        looks, self._looks = self._looks, Counter()
        intervals, self._intervals = self._intervals, {}
        for outcome, numbers in intervals.items():
            looks.update(_of_histogram(LOOK_INTERVAL, "outcome", outcome, numbers))
        self._looks_are_news = self._looks_are_news and not looks
        return looks

    async def run(self) -> None:
        """Write what was counted every few seconds, until cancelled; then once more."""
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                await self.flush()
        finally:
            with contextlib.suppress(StoreError):
                await self.flush()

    def _observe(self, name: str, kind: str, milliseconds: int) -> None:
        numbers = self._times.get((name, kind))
        if numbers is None:
            numbers = self._times[name, kind] = _new_histogram()
        _add_to(numbers, milliseconds)


def _new_histogram() -> list[int]:
    return [0] * (len(BUCKETS_MS) + 2)


def _add_to(numbers: list[int], milliseconds: int) -> None:
    numbers[bisect.bisect_left(BUCKETS_MS, milliseconds)] += 1
    if milliseconds > 0:
        numbers[-1] += milliseconds


def _of_histogram(name: str, label: str, value: str, numbers: list[int]) -> dict[str, int]:
    *buckets, total = numbers
    named = {
        f'{name}_bucket{{{label}="{value}",le="{bound}"}}': count
        for bound, count in zip((*BUCKETS_MS, "inf"), buckets, strict=True)
        if count
    }
    return {
        **named,
        f'{name}_ms{{{label}="{value}"}}': total,
        f'{name}_count{{{label}="{value}"}}': sum(buckets),
    }


# Names are put together once: several are counted for every job.


@lru_cache(maxsize=4_096)
def _of_kind(name: str, kind: str) -> str:
    return f'{name}{{kind="{kind}"}}'


@lru_cache(maxsize=4_096)
def _of_state(name: str, kind: str, state: str) -> str:
    return f'{name}{{kind="{kind}",state="{state}"}}'
