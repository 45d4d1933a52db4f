"""The clock: does it run evenly, and does it agree with the database's?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.cli.output.time_format import short

AREA = "clock"
# Between the two looks the wall clock may run ahead or behind by this much.
DRIFT_MS = 100
# The looks lie at least this far apart.
APART_S = 0.3
SKEW_MS = 1_000
GREAT_SKEW_MS = 60_000
# Earlier than this program was written.
TOO_EARLY_MS = 1_735_689_600_000

_ADVICE = "keep the clock right with NTP (chrony, systemd-timesyncd): due times are read from it"


class ClockReading(NamedTuple):
    """Both clocks at one moment, in milliseconds."""

    wall: float
    monotonic: float


def look() -> ClockReading:
    """Read both clocks."""
    return ClockReading(time.time() * 1000, time.monotonic() * 1000)


def check_clock(first: ClockReading, database_ahead_ms: float | None) -> Iterator[Finding]:
    """Compare the clocks with an earlier look, and with the database's."""
    left_s = APART_S - (time.monotonic() - first.monotonic / 1000)
    if left_s > 0:
        time.sleep(left_s)
    yield _even(first, look())
    if database_ahead_ms is not None:
        yield _agreement(database_ahead_ms)


def _even(first: ClockReading, second: ClockReading) -> Finding:
    passed = second.monotonic - first.monotonic
    drift = (second.wall - first.wall) - passed
    if second.wall < TOO_EARLY_MS:
        return problem(AREA, "the wall clock is years behind", _ADVICE)
    if abs(drift) > DRIFT_MS:
        said = f"the wall clock moved {drift:+.0f} ms against the monotonic one in {short(passed)}"
        return warning(AREA, said, _ADVICE)
    return ok(AREA, "the wall clock runs evenly")


def _agreement(ahead_ms: float) -> Finding:
    if abs(ahead_ms) <= SKEW_MS:
        return ok(AREA, f"it agrees with the database's to {abs(ahead_ms):.0f} ms")
    which = "behind" if ahead_ms > 0 else "ahead of"
    said = f"this clock is {short(abs(ahead_ms))} {which} the database's"
    return (problem if abs(ahead_ms) > GREAT_SKEW_MS else warning)(AREA, said, _ADVICE)
