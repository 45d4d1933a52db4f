"""Drain: jobs that were handed in before are worked off, until the last one has its result."""

from __future__ import annotations

from benchmarks.contestants import EVERYBODY
from benchmarks.measures.comparison import Turns, per_second
from benchmarks.plan import Plan
from benchmarks.results import Measure


def measure(plan: Plan) -> list[Measure]:
    """As many jobs as each system takes in within the time, so that the run is long enough."""
    turns = Turns(plan, "drain", EVERYBODY, lambda _: {"seconds": plan.seconds / 2})
    rows = turns.rows(per_second)
    return [Measure("drain", "Drain of no-op jobs, results kept", "jobs/s", rows)]
