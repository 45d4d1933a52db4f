"""What running a handler costs: `async def` on the handlers' loop, `def` in a thread each."""

from __future__ import annotations

import statistics

from benchmarks.contestants import OURS, run
from benchmarks.plan import Plan
from benchmarks.results import Measure, Row


def measure(plan: Plan) -> list[Measure]:
    """A drain of no-op jobs of each, in turns: wall and CPU time a job, claim and settle too."""
    rows = {isolation: Row(f"`{isolation}`", ours=True) for isolation in ("async", "thread")}
    costs: dict[str, list[float]] = {isolation: [] for isolation in rows}
    for number in range(plan.rounds):
        order = list(rows)
        for isolation in order if number % 2 == 0 else reversed(order):
            options = {"isolation": isolation, "seconds": plan.seconds / 2}
            answer = run(OURS, "drain", plan.folder, **options)
            rows[isolation].samples.append(1e6 / answer["per_second"])
            costs[isolation].append(answer["cpu_us_per_job"])
    for isolation, row in rows.items():
        row.extra["cpu_us_per_job"] = statistics.median(costs[isolation])
    title = "Cost of a no-op job by isolation, from claim to settle"
    return [Measure("isolation", title, "µs/job", list(rows.values()), False)]
