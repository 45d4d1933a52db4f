"""The clock, injected: code below the command line never reads the system's time directly.

Wall-clock times are whole milliseconds since the epoch, UTC. Durations that decide whether a worker
is lost are measured on the monotonic clock, so that no worker is lost when the wall clock jumps.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        ...


class SystemClock:
    """The system's clock."""

    def now(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        return time.monotonic()


def to_rfc3339(milliseconds: int) -> str:
    """Format a time as the API does: RFC 3339, UTC, milliseconds."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    # Many times fall into the same second. strftime is avoided: some systems write the year 221
    # with three digits.
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")[:19]


def from_rfc3339(text: str) -> int:
    """Parse an RFC 3339 time with its offset into milliseconds; raise ValueError if it is
    invalid.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs an offset, such as 2030-01-31T09:00:00Z")
    milliseconds = round(moment.timestamp() * 1000)
    try:
        to_rfc3339(milliseconds)
    except (ValueError, OverflowError) as error:
        raise ValueError("this time is out of range") from error
    return milliseconds
