"""End to end: jobs are submitted while workers run, from the first submit to the last result.

Each system has its best number of callers. In one process all share the interpreter; in two, the
callers are one process and the workers another, and they share only the database file.
"""

from __future__ import annotations

from functools import partial

from benchmarks.contestants import DBOS_DIRECT, EVERYBODY, Contestant
from benchmarks.measures.comparison import Turns, per_second
from benchmarks.plan import Plan
from benchmarks.results import Measure, at_least_times


def measure(plan: Plan) -> list[Measure]:
    """Measure one process, then two."""
    tables = []
    for processes in (1, 2):
        # Without a queue no other process can run DBOS's jobs: that setting has one process only.
        everybody = (*EVERYBODY, DBOS_DIRECT) if processes == 1 else EVERYBODY
        turns = Turns(plan, "end-to-end", everybody, partial(_options, plan, processes))
        where = "in one process" if processes == 1 else "submitter and worker as two processes"
        title = f"End to end, {where}, no HTTP"
        table = Measure(f"end-to-end-{processes}", title, "jobs/s", turns.rows(per_second))
        table.bars = [
            at_least_times(table, "huey", 3, "Huey (fsync)"),
            at_least_times(table, "dbos", 10, "DBOS"),
        ]
        tables.append(table)
    return tables


def _options(plan: Plan, processes: int, one: Contestant) -> dict[str, object]:
    return {"callers": one.callers, "seconds": plan.seconds, "processes": processes}
