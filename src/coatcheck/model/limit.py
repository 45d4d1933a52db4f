"""Limits of a kind: how many of its jobs run at once, and how often one starts.

A kind declares its limits in code. A worker passes them with every claim, and the store enforces
them over all workers. A *limit key* is computed from a job's input at submission; jobs of one
tenant with the same key share a limit.

A *rate* spaces starts evenly (`Rate.allowed`): at ten per minute, one starts every six seconds.
Unused starts are lost, except for a tenth of a second's worth, so that fast rates can be claimed in
batches. In any period there are at most as many starts as the rate allows in it, plus those of a
tenth of a second.

An *age boost* is for work that is cheaper now than later, such as requests to a loaded model: jobs
of a queue with a boost count as that much older than they are. They go before others, but not
before jobs that have waited that much longer, so no job starves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from coatcheck.errors import ConfigurationError

_RATE = re.compile(r"([1-9]\d{0,8})/(s|m|h|d)")
_PERIODS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
# How much unused time can be used later, in microseconds.
SAVED_US = 100_000
LONGEST_KEY = 255
NO_AGE_BOOSTS: Mapping[str, int] = MappingProxyType({})


class Rate(NamedTuple):
    """The start rate of a kind: one job per interval."""

    text: str
    interval_us: int

    def allowed(self, free_at: int, now: int) -> int:
        """Return how many may start now (ms) if the next start is free at `free_at` (µs)."""
        since = now * 1000 - self._begin(free_at, now)
        return 0 if since < 0 else since // self.interval_us + 1

    def after(self, free_at: int, now: int, starts: int) -> int:
        """Return when the next start is free after `starts` have started now."""
        return self._begin(free_at, now) + starts * self.interval_us

    def _begin(self, free_at: int, now: int) -> int:
        return max(free_at, now * 1000 - SAVED_US)


class Limit(NamedTuple):
    """The limits of one kind: its concurrency, in total or per key, and its rate."""

    concurrency: int | None = None
    by_key: bool = False
    rate: Rate | None = None
    age_boosts: Mapping[str, int] = NO_AGE_BOOSTS  # of queues, in milliseconds


def read_rate(text: str, what: str) -> Rate:
    """Parse "100/s", "10/m", "1000/h" or "1/d"; `what` names it in errors."""
    found = _RATE.fullmatch(str(text))
    if found is None:
        raise ConfigurationError(f'{what}: {text!r} is not a rate; write "10/m", "100/s", "1000/h"')
    interval = _PERIODS[found[2]] // int(found[1])
    if interval == 0:
        raise ConfigurationError(f"{what}: {text!r} is more than a million a second")
    return Rate(text, interval)


def millis(free_at: int) -> int:
    """Convert microseconds to milliseconds, rounded up."""
    return -(-free_at // 1000)
