"""The chart: throughput and pickup side by side, Coatcheck in color."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.results import Measure

SHOWN = ("enqueue-1", "enqueue-64", "drain", "end-to-end-1", "end-to-end-2", "pickup-p50")
OURS, THEIRS = "#2b6cb0", "#b8bfc9"


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
    shown = [by_name[name] for name in SHOWN if name in by_name]
    if not shown:
        return "no plot: nothing compared"
    figure, axes = pyplot.subplots(
        (len(shown) + 1) // 2, 2, figsize=(11, 2.1 * ((len(shown) + 1) // 2)), squeeze=False
    )
    for axis, measure in zip(axes.flat, shown, strict=False):
        _bars(axis, measure)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return f"plot in {path.name}"


def _bars(axis: Any, measure: Measure) -> None:
    rows = [row for row in measure.rows if row.median is not None][::-1]
    medians = [row.median or 0 for row in rows]
    below = [(row.median or 0) - min(row.samples) for row in rows]
    above = [max(row.samples) - (row.median or 0) for row in rows]
    axis.barh(
        [row.label for row in rows],
        medians,
        xerr=(below, above),
        color=[OURS if row.ours else THEIRS for row in rows],
        error_kw={"elinewidth": 0.8, "ecolor": "#555555"},
    )
    # Linear from zero: the length of a bar is the number.
    farthest = max(max(row.samples) for row in rows)
    axis.set_xlim(0, farthest * 1.15)
    for position, row in enumerate(rows):
        median = row.median or 0
        text = f"{median:,.0f}" if median >= 10 else f"{median:.1f}"
        axis.text(max(row.samples) + farthest / 80, position, text, va="center", fontsize=8)
    better = "higher is better" if measure.higher_is_better else "lower is better"
    axis.set_title(f"{measure.title}\n{measure.unit}, {better}", fontsize=9, loc="left")
    axis.tick_params(axis="x", labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
