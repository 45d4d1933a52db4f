"""Coatcheck and the peers: enqueue, drain, end to end, pickup, steps."""

from __future__ import annotations

from benchmarks.contestants import Contestant
from benchmarks.measures.comparison import Answer, per_second
from benchmarks.measures.steps import STEPS, microseconds_each, steps_title
from benchmarks.plan import Plan
from benchmarks.postgres.contestants import (
    END_TO_END,
    IDLE,
    IN_LISTS,
    ONE_BY_ONE,
    STEPPING,
    WORKING,
)
from benchmarks.postgres.server import Server
from benchmarks.postgres.turns import PostgresTurns, best_against
from benchmarks.results import Measure, at_least_times, at_most, percentile

# The first probes hit cold caches and connections not yet open, in every system.
WARM_UP = 5
# What each system keeps of a finished job, and so had to write.
LEFT_BEHIND = (
    "Coatcheck keeps input, result and log of every job and DBOS input and result; Procrastinate "
    "keeps the job and its log, PgQueuer a line in its log, Graphile Worker nothing."
)


def enqueue(plan: Plan, server: Server) -> list[Measure]:
    """Measure one caller, 64 callers, and lists of jobs if a system accepts them."""
    tables = []
    for callers in (1, 64):

        def options(_: Contestant, callers: int = callers) -> Answer:
            return {"callers": callers, "seconds": plan.seconds}

        turns = PostgresTurns(plan, server, "enqueue", ONE_BY_ONE, options)
        who = "one caller" if callers == 1 else f"{callers} callers at once"
        title = f"Durable enqueue, one by one, {who}"
        tables.append(Measure(f"enqueue-{callers}", title, "jobs/s", turns.rows(per_second)))
    if len(plan.taking_part(IN_LISTS)) == len(IN_LISTS):
        turns = PostgresTurns(
            plan, server, "enqueue", IN_LISTS, lambda _: {"callers": 1, "seconds": plan.seconds}
        )
        title = "Durable enqueue, lists of 500, one caller"
        tables.append(Measure("enqueue-lists", title, "jobs/s", turns.rows(per_second)))
    return tables


def drain(plan: Plan, server: Server) -> list[Measure]:
    """Measure one process with as many jobs as each system accepts within the time."""
    turns = PostgresTurns(plan, server, "drain", WORKING, lambda _: {"seconds": plan.seconds / 2})
    table = Measure("drain", "Drain of no-op jobs", "jobs/s", turns.rows(per_second))
    table.notes = [LEFT_BEHIND]
    return [table]


def end_to_end(plan: Plan, server: Server) -> list[Measure]:
    """Submit while a worker runs, in one process, in each system's settings."""

    def options(one: Contestant) -> Answer:
        return {"callers": one.callers, "seconds": plan.seconds}

    turns = PostgresTurns(plan, server, "end-to-end", END_TO_END, options)
    title = "End to end, in one process"
    table = Measure("end-to-end", title, "jobs/s", turns.rows(per_second))
    table.notes = [LEFT_BEHIND]
    for family, wanted, name in (
        ("pgqueuer", 1, "PgQueuer at its best"),
        ("procrastinate", 10, "Procrastinate"),
        ("dbos", 10, "DBOS"),
        ("graphile", 1, "Graphile Worker tuned (stretch)"),
    ):
        with_defaults = at_least_times(table, family, wanted, name)
        with_defaults.wanted = f"with our defaults {with_defaults.wanted}"
        table.bars += [with_defaults, best_against(table, family, wanted, name)]
    return [table]


def steps(plan: Plan, server: Server) -> list[Measure]:
    """Measure durable steps in one job and in 64 concurrent jobs."""
    tables = []
    for jobs, count in STEPS:

        def options(_: Contestant, jobs: int = jobs, count: int = count) -> Answer:
            return {"callers": jobs, "count": count}

        turns = PostgresTurns(plan, server, "steps", STEPPING, options)
        rows = turns.rows(microseconds_each, higher_is_better=False)
        table = Measure(f"steps-{jobs}", steps_title(jobs), "µs/step", rows, False)
        table.bars = [at_least_times(table, "dbos", 5, "DBOS")]
        tables.append(table)
    return tables


def pickup(plan: Plan, server: Server) -> list[Measure]:
    """Return medians and 99th percentiles of each round."""
    turns = PostgresTurns(
        plan,
        server,
        "pickup",
        IDLE,
        lambda _: {"count": plan.probes + WARM_UP},
    )
    tables = []
    for share, name in ((0.5, "p50"), (0.99, "p99")):

        def value(answer: Answer, share: float = share) -> float:
            return percentile(answer["milliseconds"][WARM_UP:], share)

        rows = turns.rows(value, higher_is_better=False)
        table = Measure(f"pickup-{name}", f"Pickup on an idle system, {name}", "ms", rows, False)
        if name == "p50":
            ours = next(row for row in rows if row.ours)
            table.bars = [at_most(5, "ms", ours.median)]
        tables.append(table)
    return tables
