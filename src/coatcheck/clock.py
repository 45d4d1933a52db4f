"""Time, injected: nothing below the command line asks the operating system for it directly.

Wall-clock times are whole milliseconds since the epoch, UTC. Durations that decide whether a
worker is lost are measured on the monotonic clock, so that a jump of the wall clock loses nobody.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """What the engine asks for the time."""

    def now(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps."""
        return time.monotonic()


def to_rfc3339(milliseconds: int) -> str:
    """Write a time the way the API does: RFC 3339, UTC, milliseconds."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    # Times come in crowds of the same second.
    # Not by strftime, which on some systems writes the year 221 with three digits.
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")[:19]


def from_rfc3339(text: str) -> int:
    """Read an RFC 3339 time with its offset into milliseconds; ValueError says what is wrong."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs an offset, such as 2030-01-31T09:00:00Z")
    milliseconds = round(moment.timestamp() * 1000)
    try:
        to_rfc3339(milliseconds)
    except (ValueError, OverflowError) as error:
        raise ValueError("this time is out of range") from error
    return milliseconds
