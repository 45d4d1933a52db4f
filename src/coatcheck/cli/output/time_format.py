"""Parsing and formatting of times and durations."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from datetime import time as clock_time

import click

from coatcheck.clock import from_rfc3339, to_rfc3339
from coatcheck.errors import ConfigurationError
from coatcheck.model.duration import milliseconds

_DAYS_AGO = {"today": 0, "yesterday": 1}  # since local midnight


def read_since(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    """Parse a past time: RFC 3339, a duration ago, or a day; return RFC 3339."""
    if given is None:
        return None
    if given in _DAYS_AGO:
        day = datetime.now().astimezone().date() - timedelta(days=_DAYS_AGO[given])
        midnight = datetime.combine(day, clock_time()).astimezone()
        return to_rfc3339(round(midnight.timestamp() * 1000))
    return _moment(given, -1, "1h, 30m, 2d (ago), today, yesterday")


def read_moment(given: str) -> tuple[str, bool]:
    """Parse a future time: RFC 3339 or a duration from now.

    Return it as RFC 3339, with a flag that tells whether it was relative.
    """
    moment = _moment(given, +1, "10m, 2h (from now)")
    try:
        from_rfc3339(given)
    except ValueError:
        return moment, True
    return moment, False


def read_seconds(_ctx: click.Context, _param: click.Parameter, given: str | None) -> float | None:
    """Parse a duration such as 90 or 15m; return seconds."""
    if given is None:
        return None
    try:
        return milliseconds(_number(given), "the duration") / 1000
    except (ConfigurationError, OverflowError):
        message = f"{given!r} is not a duration; write seconds (90) or 15m, 1h30m"
        raise click.BadParameter(message) from None


def _moment(given: str, direction: int, example: str) -> str:
    try:
        return to_rfc3339(from_rfc3339(given))
    except ValueError:
        pass
    try:
        return to_rfc3339(now() + direction * milliseconds(given, "the time"))
    except (ConfigurationError, ValueError, OverflowError, OSError):
        message = f"{given!r} is neither {example} nor 2030-01-31T09:00:00Z"
        raise click.BadParameter(message) from None


def now() -> int:
    """Return the wall-clock time in milliseconds."""
    return time.time_ns() // 1_000_000


def age(moment: str | None, until: str | None = None) -> str:
    """Format the time from one moment to another, or to now."""
    if moment is None:
        return ""
    end = now() if until is None else from_rfc3339(until)
    return short(max(0, end - from_rfc3339(moment)))


def relative(moment: str) -> str:
    """Format a time relative to now: '5m ago' or 'in 5m'."""
    ahead = from_rfc3339(moment) - now()
    return f"in {short(ahead)}" if ahead > 0 else f"{short(-ahead)} ago"


def short(duration_ms: float) -> str:
    """Format a duration in its one or two largest units."""
    seconds = duration_ms / 1000
    if seconds < 1:
        return f"{duration_ms:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, below in (("d", 86_400, "h"), ("h", 3_600, "m"), ("m", 60, "s")):
        if whole >= size:
            rest = whole % size // {"h": 3_600, "m": 60, "s": 1}[below]
            return f"{whole // size}{unit}{rest}{below}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def _number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
