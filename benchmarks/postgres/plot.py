"""The chart: the comparison as bars, the churn as two curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.plot import OURS, _bars
from benchmarks.postgres.measures.churn import ChurnMeasure
from benchmarks.results import Measure

SHOWN = ("enqueue-1", "enqueue-64", "drain", "end-to-end", "pickup-p50", "workers")
READ = "#c05621"


def draw(measures: list[Measure], path: Path) -> str:
    """Draw the chart and return a note about it."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - in the extra `bench` only
    except ImportError:
        return "no plot: matplotlib is in the extra `bench`"
    mpl.use("svg")
    # Reproducible output, with text as text.
    mpl.rcParams.update({"svg.hashsalt": "coatcheck", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot  # noqa: PLC0415 - after the backend is chosen

    by_name = {measure.name: measure for measure in measures}
    bars = [by_name[name] for name in SHOWN if name in by_name]
    bars = [measure for measure in bars if any(row.samples for row in measure.rows)]
    churn = by_name.get("churn")
    curves = [_claims, _sizes] if isinstance(churn, ChurnMeasure) and churn.series else []
    panels = len(bars) + len(curves)
    if not panels:
        return "no plot: nothing compared"
    lines = (panels + 1) // 2
    figure, axes = pyplot.subplots(lines, 2, figsize=(12, 2.5 * lines), squeeze=False)
    for axis, measure in zip(axes.flat, bars, strict=False):
        _bars(axis, measure)
    for axis, curve in zip(axes.flat[len(bars) :], curves, strict=False):
        curve(axis, churn)
    for axis in axes.flat[panels:]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return f"plot in {path.name}"


def _claims(axis: Any, churn: ChurnMeasure) -> None:
    for series, colour in zip(churn.series, (OURS, READ), strict=True):
        axis.plot(
            [point.jobs / 1000 for point in series.points],
            [point.claim_us for point in series.points],
            color=colour,
            label=series.label,
        )
    _frame(axis, "Churn: claim of 64 jobs\nµs/job, by thousands of jobs so far")


def _sizes(axis: Any, churn: ChurnMeasure) -> None:
    for series, colour in zip(churn.series, (OURS, READ), strict=True):
        jobs = [point.jobs / 1000 for point in series.points]
        axis.plot(
            jobs, [point.table_mb for point in series.points], color=colour, label=series.label
        )
        axis.plot(
            jobs,
            [point.indexes_mb for point in series.points],
            color=colour,
            linestyle="--",
            label=f"{series.label}, indexes",
        )
    _frame(axis, "Churn: size of the jobs table and its indexes\nMB, by thousands of jobs so far")


def _frame(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=9, loc="left")
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)
    axis.legend(fontsize=8, frameon=False)
    axis.tick_params(labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
