"""Check that every system syncs, with strace if it is installed.

A run of `enqueue` with one caller under strace: fewer than one sync per job would mean that a
system acknowledges jobs before they are on disk. Timings under strace are not reported.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.contestants import EVERYBODY, TIMEOUT_S, Contestant
from benchmarks.environments import ROOT, Unavailable, python_for
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row

CALL = re.compile(rb"\b(?:fsync|fdatasync)\(\d+")


def measure(plan: Plan) -> list[Measure]:
    """Count fsync and fdatasync per submitted job."""
    table = Measure("syncs", "Syncs of the disk for each enqueued job, one caller", "syncs", [])
    if shutil.which("strace") is None:
        table.notes = ["Not measured: strace is not installed."]
        return [table]
    for one in plan.taking_part(EVERYBODY):
        row = Row(one.label, ours=one.peer is None, family=one.family)
        try:
            row.samples = [_syncs_per_job(one, plan.folder)]
        except (Unavailable, subprocess.SubprocessError, ValueError) as error:
            row.failed = f"{type(error).__name__}: no count"
        table.rows.append(row)
    counted = [row for row in table.rows if row.median is not None]
    honest = [row for row in counted if (row.median or 0) >= 1]
    table.bars = [
        Bar(
            "everybody syncs for every job",
            f"{len(honest)} of {len(counted)} do",
            None if not counted else len(honest) == len(counted),
        )
    ]
    return [table]


def _syncs_per_job(one: Contestant, under: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="trace-", dir=under) as folder:
        trace = Path(folder) / "trace"
        command = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
        command += [str(python_for(one.peer)), "-m", one.module, "enqueue"]
        command += ["--variant", one.variant, "--under", folder, "--seconds", "2"]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        jobs: int = json.loads(done.stdout.strip().splitlines()[-1])["jobs"]
        return len(CALL.findall(trace.read_bytes())) / jobs
