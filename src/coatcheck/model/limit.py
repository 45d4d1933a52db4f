"""What holds a kind's jobs back although a worker has room: how many run at once, and how often one
starts.

A kind declares its limits in code, so a worker knows them and names them with every claim; the
store enforces them over all workers. A *key* is worked out from a job's input when it is submitted
and shared by jobs that must not run beside each other; it belongs to the job's tenant.

A *rate* is kept by spacing starts evenly (`Rate.allowed`): a kind that may start ten times a minute
starts every six seconds. What was not used is lost but for a tenth of a second's worth, which lets
a fast rate be claimed in batches. So in any stretch of time there are never more starts than the
rate allows in it, and those of a tenth of a second.

A *head start* is for work that is cheaper now than later, such as that of a model which is loaded:
jobs of a queue that has one count as so much older than they are. So they come before others, but
not before those that have waited that much longer: nobody is passed over for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from coatcheck.errors import ConfigurationError

_RATE = re.compile(r"([1-9]\d{0,8})/(s|m|h|d)")
_PERIODS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
# How much of what was not used can be used later, in microseconds.
SAVED_US = 100_000
LONGEST_KEY = 255
NO_AGE_BOOSTS: Mapping[str, int] = MappingProxyType({})


class Rate(NamedTuple):
    """How often jobs of a kind start: one every so many microseconds."""

    text: str
    interval_us: int

    def allowed(self, free_at: int, now: int) -> int:
        """Return how many may start now (ms), where the next one is free at some time (µs)."""
        since = now * 1000 - self._begin(free_at, now)
        return 0 if since < 0 else since // self.interval_us + 1

    def after(self, free_at: int, now: int, starts: int) -> int:
        """Return when the next one is free after so many have started now."""
        return self._begin(free_at, now) + starts * self.interval_us

    def _begin(self, free_at: int, now: int) -> int:
        return max(free_at, now * 1000 - SAVED_US)


class Limit(NamedTuple):
    """The limits of one kind: so many at once, of the kind or of each key, and so many starts."""

    concurrency: int | None = None
    by_key: bool = False
    rate: Rate | None = None
    age_boosts: Mapping[str, int] = NO_AGE_BOOSTS  # of queues, in milliseconds


def read_rate(text: str, what: str) -> Rate:
    """Read "100/s", "10/m", "1000/h" or "1/d"; `what` names it in errors."""
    found = _RATE.fullmatch(str(text))
    if found is None:
        raise ConfigurationError(f'{what}: {text!r} is not a rate; write "10/m", "100/s", "1000/h"')
    interval = _PERIODS[found[2]] // int(found[1])
    if interval == 0:
        raise ConfigurationError(f"{what}: {text!r} is more than a million a second")
    return Rate(text, interval)


def millis(free_at: int) -> int:
    """Return the millisecond at which something free at a microsecond is free."""
    return -(-free_at // 1000)
