"""Write the results of a run: JSON with every sample, and Markdown tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, Measure, Row

VERDICT = {True: "reached", False: "**missed**", None: "not known"}


def write(run: dict[str, Any], measures: list[Measure], folder: Path) -> None:
    """Write latest.json and latest.md."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**run, "measures": [measure.as_json() for measure in measures]}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (folder / "latest.json").write_text(text + "\n", encoding="utf-8")
    (folder / "latest.md").write_text(as_markdown(run, measures), encoding="utf-8")


def as_markdown(run: dict[str, Any], measures: list[Measure]) -> str:
    """Return the whole run."""
    parts = [_about(run), _summary(measures), *(_table(measure) for measure in measures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(run: dict[str, Any]) -> str:
    machine, disk = run["machine"], run["calibration"]
    made_on = (
        f"{run['made_at']}, {run['rounds']} rounds: {machine['processor']}, {machine['cores']} "
        f"cores, {machine['memory_gib']} GiB, {machine['system']}, {machine['file_system']}, "
        f"Python {machine['python']}; load before the run {machine['load_before']}."
    )
    lines = [
        made_on,
        "",
        "| disk | at the start | at the end |",
        "|---|---|---|",
    ]
    for name, label in (
        ("fdatasync_per_second", "4 KiB write + fdatasync, a second"),
        ("sqlite_commits_per_second", "raw SQLite commit (WAL, FULL, one row), a second"),
    ):
        lines.append(f"| {label} | {_number(disk[0][name])} | {_number(disk[-1][name])} |")
    if run["disk"]:
        lines += ["", _disk_meanwhile(run["disk"])]
    lines += ["", "| system | version | SQLite | journal | synchronous | settings |"]
    lines.append("|---|---|---|---|---|---|")
    for label, told in run["systems"].items():
        if "failed" in told:
            lines.append(f"| {label} | did not start: {told['failed']} | | | | |")
            continue
        synchronous = {1: "NORMAL", 2: "FULL", 3: "EXTRA"}.get(told["synchronous"], "OFF")
        cells = (told["version"], told["sqlite"], told["journal_mode"], synchronous)
        lines.append(f"| {label} | {' | '.join(cells)} | {told['settings']} |")
    return "\n".join(lines)


def _disk_meanwhile(syncs: list[float]) -> str:
    ordered = sorted(syncs)
    low, middle, high = ordered[0], ordered[len(ordered) // 2], ordered[-1]
    return (
        f"Looked at again before each of {len(syncs)} runs: {_number(middle)} syncs a second in "
        f"the middle, {_number(low)} at the least, {_number(high)} at the most. The further these "
        "are apart, the less the absolute numbers mean; the ratios are of the same round."
    )


def _summary(measures: list[Measure]) -> str:
    bars = [(measure, bar) for measure in measures for bar in measure.bars]
    if not bars:
        return ""
    lines = ["| what | bar | this run | |", "|---|---|---|---|"]
    lines += [f"| {measure.title} | {_bar(bar)} |" for measure, bar in bars]
    return "\n".join(lines)


def _bar(bar: Bar) -> str:
    return f"{bar.wanted} | {bar.reached} | {VERDICT[bar.met]}"


def _table(measure: Measure) -> str:
    compared = any(row.ours_against for row in measure.rows)
    lines = [f"### {measure.title}", ""]
    lines += measure.notes
    if not measure.rows:
        return "\n".join(lines)
    if measure.notes:
        lines.append("")
    lines.append(
        f"| | {measure.unit}, median | spread |" + (" Coatcheck is |" if compared else "") + " |"
    )
    lines.append("|---|---|---|" + ("---|" if compared else "") + "---|")
    for row in measure.rows:
        lines.append(_row(row, compared))
    return "\n".join(lines)


def _row(row: Row, compared: bool) -> str:
    label = f"**{row.label}**" if row.ours and compared else row.label
    if row.median is None:
        value, spread = f"failed: {row.failed}", ""
    else:
        value = _number(row.median)
        spread = _spread(row.samples)
        if row.failed:
            value += f" (then failed: {row.failed})"
    cells = [label, value, spread]
    if compared:
        ratios = row.ours_against
        cells.append(f"{row.ratio:.1f} × as good ({_spread(ratios)})" if row.ratio else "")
    cells.append(", ".join(f"{_words(name)} {_number(v)}" for name, v in row.extra.items()))
    return "| " + " | ".join(cells) + " |"


def _words(name: str) -> str:
    return name.replace("_us_", " µs ").replace("_", " ")


def _spread(values: list[float]) -> str:
    if len(values) < 2:
        return "one round"
    if len(values) > 20:  # single timings, not rounds: the extremes mean little
        ordered = sorted(values)
        tenth = len(ordered) // 10
        return f"{_number(ordered[tenth])} to {_number(ordered[-tenth - 1])} (middle 80 %)"
    return f"{_number(min(values))} to {_number(max(values))}"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
