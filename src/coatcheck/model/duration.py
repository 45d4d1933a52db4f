"""Durations in options: 90, 1.5, "500ms", "15m", "1h30m", timedelta(hours=2)."""

from __future__ import annotations

import re
from datetime import timedelta

from coatcheck.errors import ConfigurationError

Duration = float | str | timedelta
# Ten years: a store cannot hold every number.
LONGEST_MS = 3_650 * 86_400_000

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def milliseconds(duration: Duration, what: str) -> int:
    """Return a duration in milliseconds; bare numbers are seconds. `what` names it in errors."""
    if isinstance(duration, timedelta):
        total = duration / timedelta(milliseconds=1)
    elif isinstance(duration, str):
        text = duration.replace(" ", "")
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ConfigurationError(
                f'{what}: {duration!r} is not a duration; write seconds (90) or "15m", "1h30m"'
            )
        total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        total = duration * 1000
    if not 0 < total < float("inf"):
        raise ConfigurationError(f"{what} must be more than 0, not {duration!r}")
    return max(1, round(total))
