"""Drain: run jobs that were submitted before, until the last one has its result."""

from __future__ import annotations

from benchmarks.contestants import EVERYBODY
from benchmarks.measures.comparison import Turns, per_second
from benchmarks.plan import Plan
from benchmarks.results import Measure


def measure(plan: Plan) -> list[Measure]:
    """Measure with as many jobs as each system accepts within the time."""
    turns = Turns(plan, "drain", EVERYBODY, lambda _: {"seconds": plan.seconds / 2})
    rows = turns.rows(per_second)
    return [Measure("drain", "Drain of no-op jobs, results kept", "jobs/s", rows)]
