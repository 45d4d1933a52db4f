"""The result of a measure: rows of samples, and goals."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Row:
    """A row of a table: a sample per round, or the reason why there is none."""

    label: str
    samples: list[float] = field(default_factory=list)
    failed: str | None = None
    # How many times better Coatcheck is than this row: one ratio per round.
    ours_against: list[float] = field(default_factory=list)
    # Further values of a row, such as the CPU time per job.
    extra: dict[str, float] = field(default_factory=dict)
    ours: bool = False
    family: str = ""

    @property
    def median(self) -> float | None:
        """The median of the samples."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def ratio(self) -> float | None:
        """The median of the ratios."""
        return statistics.median(self.ours_against) if self.ours_against else None


@dataclass
class Bar:
    """A goal, the value reached, and whether it suffices (None: unknown)."""

    wanted: str
    reached: str
    met: bool | None


@dataclass
class Measure:
    """One table."""

    name: str
    title: str
    unit: str
    rows: list[Row]
    higher_is_better: bool = True
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self, label: str) -> Row:
        """Return the row of a label."""
        return next(row for row in self.rows if row.label == label)

    def as_json(self) -> dict[str, Any]:
        """Return it for results/latest.json."""
        value = asdict(self)
        for row, written in zip(self.rows, value["rows"], strict=True):
            written["median"], written["ratio"] = row.median, row.ratio
        return value


def at_least_times(measure: Measure, family: str, wanted: float, name: str) -> Bar:
    """Compare Coatcheck with the fastest setting of a peer."""
    rivals = [row for row in measure.rows if row.family == family and row.ratio is not None]
    text = f"at least {wanted:g} × {name}"
    if not rivals:
        return Bar(text, "nothing to compare", None)
    fastest = min(rivals, key=lambda row: row.ratio or 0)
    assert fastest.ratio is not None
    reached = f"{fastest.ratio:.1f} × {fastest.label}"
    return Bar(text, reached, fastest.ratio >= wanted)


def at_most(wanted: float, unit: str, reached: float | None) -> Bar:
    """Compare a number with its upper bound."""
    if reached is None:
        return Bar(f"at most {wanted:g} {unit}", "no result", None)
    return Bar(f"at most {wanted:g} {unit}", f"{reached:.2f} {unit}", reached <= wanted)


def percentile(values: list[float], share: float) -> float:
    """Return the value that `share` of the samples do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
