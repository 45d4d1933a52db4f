"""Counters of this process, written to the store at intervals.

Any process of a system can show the counts of all processes, because the store adds them up. A
worker opens no port, and its jobs are counted all the same. Counting costs one dictionary entry;
every few seconds the counts are named and written, all at once. A crash loses the counts that were
not written yet. The numbers are for people and alerts; nothing in the engine depends on their being
complete.

A counter has a Prometheus name, `name{label="value"}`. Durations are counted in milliseconds and
shown in seconds (http/server/metrics.py).
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
    """The number and total duration of some waits."""

    seconds: float = 0.0
    count: int = 0

    def add(self, seconds: float) -> None:
        """Add one wait."""
        self.seconds += seconds
        self.count += 1


class Metrics:
    """The counts of one process that are not written yet."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.throughput = Throughput(store, clock)
        self._counts: Counter[str] = Counter()
        # By histogram and kind: the count of each bucket, then the total milliseconds.
        self._times: dict[tuple[str, str], list[int]] = {}
        self._looks: Counter[str] = Counter()
        self._intervals: dict[str, list[int]] = {}  # of polls, by outcome
        self._looks_are_news = True  # the first poll and failed polls are written soon
        self.store_latency = Latency()  # of this process only

    def submitted(self, kind: str, jobs: int = 1) -> None:
        """Count submitted jobs."""
        self._counts[_of_kind(SUBMITTED, kind)] += jobs

    def started(self, kind: str, waited_ms: int) -> None:
        """Count an attempt that starts, and how long its job was due."""
        self._counts[_of_kind(STARTED, kind)] += 1
        self._observe(WAIT_TIME, kind, waited_ms)

    def job_polled(self, kind: str) -> None:
        """Count a repeated submission that polls for an existing job."""
        self._counts[_of_kind(POLLED, kind)] += 1

    def worker_polled(self, outcome: str, interval_s: float) -> None:
        """Count a poll for work that `found` some, found `nothing` or `failed`.

        Also observe the poll interval in force. An idle worker does not write for polls alone:
        after the first poll, these counts are written together with others.
        """
        self._looks[f'{LOOKS}{{outcome="{outcome}"}}'] += 1
        numbers = self._intervals.setdefault(outcome, _new_histogram())
        _add_to(numbers, round(interval_s * 1000))
        self._looks_are_news |= outcome == "failed"

    def delivered(self, outcome: str) -> None:
        """Count a webhook call: delivered, retried (it will be) or failed."""
        self._counts[f'{DELIVERIES}{{outcome="{outcome}"}}'] += 1

    def finished(self, kind: str, queue: str, state: str, ran_ms: int) -> None:
        """Count a finished job, and how long its last attempt ran."""
        self._counts[_of_state(FINISHED, kind, state)] += 1
        self.throughput.finished(queue, kind, state)
        self._observe(RUN_TIME, kind, ran_ms)

    def settled(self, kind: str, queue: str, outcome: Outcome, *, last: bool, ran_ms: int) -> None:
        """Count the outcome of an attempt, the last one or not.

        A released or waiting job is not counted.
        """
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
        """Count an attempt that will be retried."""
        self._counts[_of_kind(RETRIED, kind)] += 1

    async def flush(self) -> None:
        """Add the counts to the store; counts that cannot be written are dropped."""
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
            # The write may have succeeded: counting too few is better than counting twice.
            log.warning("metrics not written")

    def _take_looks(self) -> Counter[str]:
        looks, self._looks = self._looks, Counter()
        intervals, self._intervals = self._intervals, {}
        for outcome, numbers in intervals.items():
            looks.update(_of_histogram(LOOK_INTERVAL, "outcome", outcome, numbers))
        self._looks_are_news = self._looks_are_news and not looks
        return looks

    async def run(self) -> None:
        """Write the counts every few seconds until cancelled, then once more."""
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


# Names are cached, because every job increments several counters.


@lru_cache(maxsize=4_096)
def _of_kind(name: str, kind: str) -> str:
    return f'{name}{{kind="{kind}"}}'


@lru_cache(maxsize=4_096)
def _of_state(name: str, kind: str, state: str) -> str:
    return f'{name}{{kind="{kind}",state="{state}"}}'
