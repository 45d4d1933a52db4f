"""Durable enqueue: no worker; each caller waits for its commit before its next submit."""

from __future__ import annotations

from functools import partial

from benchmarks.contestants import EVERYBODY, Contestant
from benchmarks.measures.comparison import Turns, per_second
from benchmarks.plan import Plan
from benchmarks.results import Measure


def measure(plan: Plan) -> list[Measure]:
    """Measure one caller, which pays for each commit, and 64, which can share commits."""
    tables = []
    for callers in (1, 64):
        turns = Turns(plan, "enqueue", EVERYBODY, partial(_options, plan, callers))
        who = "one caller" if callers == 1 else f"{callers} callers at once"
        title = f"Durable enqueue, {who}"
        tables.append(Measure(f"enqueue-{callers}", title, "jobs/s", turns.rows(per_second)))
    return tables


def _options(plan: Plan, callers: int, _: Contestant) -> dict[str, object]:
    return {"callers": callers, "seconds": plan.seconds}
