"""The cost of running a handler: `async def` on the event loop, `def` in a thread, and either in a
process.
"""

from __future__ import annotations

import statistics

from benchmarks.contestants import OURS, run
from benchmarks.plan import Plan
from benchmarks.results import Measure, Row, percentile

ISOLATIONS = ("async", "thread", "process")
# The first probes hit cold caches, threads not yet started and processes that still import.
WARM_UP = 10


def measure(plan: Plan) -> list[Measure]:
    """Drain no-op jobs of each in turns, with wall and CPU time per job; then measure pickup."""
    rows = {isolation: Row(f"`{isolation}`", ours=True) for isolation in ISOLATIONS}
    waits = {isolation: Row(f"`{isolation}`", ours=True) for isolation in ISOLATIONS}
    costs: dict[str, list[float]] = {isolation: [] for isolation in ISOLATIONS}
    for number in range(plan.rounds):
        for isolation in ISOLATIONS if number % 2 == 0 else reversed(ISOLATIONS):
            # Jobs are submitted faster than processes can run them.
            seconds = plan.seconds / (10 if isolation == "process" else 2)
            answer = run(OURS, "drain-warm", plan.folder, isolation=isolation, seconds=seconds)
            rows[isolation].samples.append(1e6 / answer["per_second"])
            costs[isolation].append(answer["cpu_us_per_job"])
            options = {"isolation": isolation, "count": plan.probes + WARM_UP}
            waited = run(OURS, "pickup-inside", plan.folder, **options)["milliseconds"]
            waits[isolation].samples.append(percentile(waited[WARM_UP:], 0.5))
    for isolation, row in rows.items():
        row.extra["cpu_us_per_job"] = statistics.median(costs[isolation])
    title = "Cost of a no-op job by isolation, from claim to settle"
    pickup = "Pickup on an idle system by isolation, p50"
    return [
        Measure("isolation", title, "µs/job", list(rows.values()), False),
        Measure("isolation-pickup", pickup, "ms", list(waits.values()), False),
    ]
