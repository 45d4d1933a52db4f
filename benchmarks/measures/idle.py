"""Idle: CPU of a system without work, in percent of one core."""

from __future__ import annotations

import time

from benchmarks.contestants import DBOS, HUEY, OURS
from benchmarks.measures.comparison import Turns
from benchmarks.plan import Plan
from benchmarks.results import Measure, Row, at_most
from benchmarks.serving import cpu_seconds, serving

SECONDS = 12.0
SETTLE_S = 2.0


def measure(plan: Plan) -> list[Measure]:
    """Measure all processes of `coatcheck serve` from /proc, and single-process systems."""
    serve = Row("Coatcheck, `serve`: supervisor, API and worker", ours=True)
    parts: dict[str, float] = {}
    with serving(plan.folder) as server:
        time.sleep(SETTLE_S)
        processes = server.processes()
        before = {pid: cpu_seconds(pid) for pid in processes}
        time.sleep(SECONDS)
        for pid, role in processes.items():
            parts[role] = 100 * (cpu_seconds(pid) - before[pid]) / SECONDS
    serve.samples = [sum(parts.values())]
    serve.extra = {f"{role}_percent": round(share, 3) for role, share in parts.items()}
    seconds = 3.0 if plan.quick else SECONDS
    turns = Turns(plan.once(), "idle", (OURS, HUEY, DBOS), lambda _: {"seconds": seconds})
    rows = turns.rows(lambda answer: float(answer["percent_of_a_core"]), higher_is_better=False)
    for row in rows:
        row.ours_against = []  # ratios of numbers near zero mean nothing
        row.label += ", workers in one process" if row.ours else ", polling every 10 ms"
    table = Measure("idle", "CPU of an idle system", "% of a core", [serve, *rows], False)
    table.bars = [at_most(1, "%", serve.median)]
    return [table]
