"""Write the results of a run, with a description of the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import _disk_meanwhile, _number, _summary, _table
from benchmarks.results import Measure

NAME = "postgres"


def write(run: dict[str, Any], measures: list[Measure], folder: Path) -> None:
    """Write postgres.json and postgres.md."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**run, "measures": [measure.as_json() for measure in measures]}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (folder / f"{NAME}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{NAME}.md").write_text(as_markdown(run, measures), encoding="utf-8")


def as_markdown(run: dict[str, Any], measures: list[Measure]) -> str:
    """Return the whole run."""
    parts = [_about(run), _summary(measures), *(_table(measure) for measure in measures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(run: dict[str, Any]) -> str:
    machine, disk, server = run["machine"], run["calibration"], run["server"]
    before, after = disk[0]["fdatasync_per_second"], disk[-1]["fdatasync_per_second"]
    made_on = (
        f"{run['made_at']}, {run['rounds']} rounds, {run['minutes']:.1f} minutes: "
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, {machine['file_system']}, Python {machine['python']}; load before "
        f"the run {machine['load_before']}, after it {run['load_after']}."
    )
    settings = ", ".join(f"`{k}` {v}" for k, v in server.items() if k != "server_version")
    made_with = (
        f"PostgreSQL {server['server_version']}, read back: {settings}. The disk, 4 KiB write + "
        f"fdatasync: {_number(before)} a second at the start, {_number(after)} at the end."
    )
    lines = [made_on, "", made_with]
    if run["disk"]:
        lines += ["", _disk_meanwhile(run["disk"])]
    if not run["systems"]:
        return "\n".join(lines)
    lines += ["", "| system | version | fsync | synchronous_commit | settings |"]
    lines.append("|---|---|---|---|---|")
    for label, told in run["systems"].items():
        if "failed" in told:
            lines.append(f"| {label} | did not start: {told['failed']} | | | |")
            continue
        cells = (told["version"], told["fsync"], told["synchronous_commit"], told["settings"])
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)
