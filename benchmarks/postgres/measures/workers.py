"""Several worker processes on one database.

A paused queue is filled, the workers start, the queue is resumed, and the time runs until the last
result. /proc tells which processes used the cores: the workers, the server, and all together. If
all cores are busy, no further worker can help.
"""

from __future__ import annotations

import os
import statistics

from benchmarks.contestants import Failed
from benchmarks.plan import Plan
from benchmarks.postgres.contestants import OURS, OURS_64
from benchmarks.postgres.server import Server
from benchmarks.postgres.turns import run_in_turn
from benchmarks.results import Measure, Row

PROCESSES = (1, 2, 4)


def measure(plan: Plan, server: Server) -> list[Measure]:
    """Measure each number of processes per round, with defaults and with concurrency 64."""
    jobs = 2_000 if plan.quick else 10_000
    rounds = min(plan.rounds, 3)
    settings = [(one, count) for one in (OURS, OURS_64) for count in PROCESSES]
    rows = {
        (one.name, count): Row(f"{one.label}: {count} worker process(es)", ours=True)
        for one, count in settings
    }
    shares: dict[tuple[str, int], list[dict[str, float]]] = {key: [] for key in rows}
    for number in range(rounds):
        for one, count in settings if number % 2 == 0 else reversed(settings):
            row = rows[one.name, count]
            if row.failed is not None:
                continue
            try:
                answer = run_in_turn(plan, server, one, "workers", workers=count, count=jobs)
            except Failed as error:
                row.failed = str(error)
                continue
            row.samples.append(answer["per_second"])
            shares[one.name, count].append(answer)
    for key, answers in shares.items():
        for part in ("workers", "database", "busy"):
            name = "cores_busy_in_all" if part == "busy" else f"cores_for_the_{part}"
            if answers:
                rows[key].extra[name] = statistics.median(a[f"cores_{part}"] for a in answers)
    title = f"Worker processes on one database, {os.cpu_count()} cores, drain of {jobs:,} jobs"
    return [Measure("workers", title, "jobs/s", list(rows.values()))]
