"""The cost of a durable step in one job and in 64 concurrent jobs; the time to replay a job; and
spawning many jobs from one.

DBOS runs its workflows without a queue here, which is faster.
"""

from __future__ import annotations

from functools import partial

from benchmarks.calibration import commits_per_second
from benchmarks.contestants import DBOS, DBOS_WAL, OURS, Contestant, run
from benchmarks.measures.comparison import Answer, Turns
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row, at_least_times

ALONE, TOGETHER = 1, 64
# Concurrent jobs, and steps in each of them.
STEPS = ((ALONE, 1_000), (TOGETHER, 20))
CHILDREN = 10_000
HISTORIES = (100, 1_000)


def measure(plan: Plan) -> list[Measure]:
    """Measure steps of Coatcheck and DBOS, then replay and fan-out."""
    tables = []
    for jobs, count in STEPS:
        turns = Turns(plan, "steps", (OURS, DBOS, DBOS_WAL), partial(_options, jobs, count))
        rows = turns.rows(microseconds_each, higher_is_better=False)
        table = Measure(f"steps-{jobs}", steps_title(jobs), "µs/step", rows, False)
        table.bars = [at_least_times(table, "dbos", 5, "DBOS")]
        if jobs == ALONE:
            table.bars.append(_beside_a_commit(plan, rows[0]))
        tables.append(table)
    return [*tables, _coming_back(plan), _fan_out(plan)]


def steps_title(jobs: int) -> str:
    """Return the title of the measure with this many jobs."""
    return "A durable step, one after the other" if jobs == ALONE else f"Steps, {jobs} jobs"


def microseconds_each(answer: Answer) -> float:
    """Return the microseconds of one step."""
    return 1e6 / float(answer["per_second"])


def _options(jobs: int, count: int, _one: Contestant) -> dict[str, object]:
    return {"callers": jobs, "count": count}


def _beside_a_commit(plan: Plan, ours: Row) -> Bar:
    commit = 1e6 / commits_per_second(plan.folder, 1.0)
    if ours.median is None:
        return Bar("at most 2 raw commits", "no result", None)
    times = ours.median / commit
    return Bar("at most 2 raw commits", f"{times:.1f} of {commit:.0f} µs", times <= 2)


def _coming_back(plan: Plan) -> Measure:
    rows = [Row(f"{count:,} steps on record", ours=True) for count in HISTORIES]
    for _ in range(plan.rounds):
        for count, row in zip(HISTORIES, rows, strict=True):
            row.samples.append(run(OURS, "resume", plan.folder, count=count)["milliseconds"])
    title = "A job that waited comes back to where it was, and ends"
    table = Measure("resume", title, "ms", rows, False)
    few, many = (row.median for row in rows)
    if few is not None and many is not None:
        more = HISTORIES[1] / HISTORIES[0]
        wanted = f"linear: at most {more:g} × for {more:g} × the steps"
        table.bars = [Bar(wanted, f"{many / few:.1f} ×", many / few <= more)]
    return table


def _fan_out(plan: Plan) -> Measure:
    children = 1_000 if plan.quick else CHILDREN
    row = Row("Coatcheck", ours=True)
    for _ in range(plan.rounds):
        row.samples.append(run(OURS, "fan-out", plan.folder, count=children)["per_second"])
    return Measure("fan-out", f"{children:,} jobs spawned, run and gathered", "jobs/s", [row])
