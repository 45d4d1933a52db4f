"""Churn: many jobs through one table, alone and beside a reader with an open snapshot.

Jobs are processed in slices: a slice is submitted, claimed and settled by the store's own verbs in
batches of 64, and the sweep deletes finished jobs (retention is a millisecond), so that the table
stays small unless dead rows remain. One series has the database for itself. In the other a
connection holds a REPEATABLE READ transaction open from the start, like a backup or a forgotten
session: PostgreSQL then cannot remove row versions that this reader could see. The two take turns,
slice by slice, each in its own database of the same server, with the autovacuum settings of the
migrations.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.measures.claim_growth import KIND
from benchmarks.plan import Plan
from benchmarks.postgres.measures.claim_growth import WORKER, new_job, opened
from benchmarks.postgres.server import Server
from benchmarks.results import Measure, Row
from coatcheck.model.job import Terms
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Settlement
from coatcheck.store.postgres.store import PostgresStore

BATCH = 64
AT_ONCE = 1_000
KEPT = Terms(keep_succeeded_ms=1)
MB = 1_000_000
# Rows of the table in the report; the JSON and the chart have every slice.
SHOWN = 10
SIZES = """
SELECT pg_table_size('coatcheck.jobs'), pg_indexes_size('coatcheck.jobs'),
  pg_total_relation_size('coatcheck.listing') + pg_total_relation_size('coatcheck.events'),
  pg_relation_size('coatcheck.jobs_claimable'),
  (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'coatcheck.jobs'::regclass)
"""


@dataclass
class Point:
    """One slice: the duration of its claims, and the sizes of tables after it."""

    jobs: int
    claim_us: float
    slice_s: float
    table_mb: float
    indexes_mb: float
    claimable_mb: float
    others_mb: float
    dead_rows: int


@dataclass
class Series:
    """All slices of one database."""

    label: str
    points: list[Point] = field(default_factory=list)
    cut: bool = False


@dataclass
class ChurnMeasure(Measure):
    """A table with the series it was made from."""

    series: list[Series] = field(default_factory=list)


def measure(plan: Plan, server: Server, jobs: int, seconds: float) -> list[Measure]:
    """Process `jobs` jobs, alone and beside a reader, for at most `seconds` in total."""
    with server.fresh_database() as alone, server.fresh_database() as read:
        series = asyncio.run(_measure(alone, read, jobs, max(1, jobs // 25), seconds))
    rows = []
    for one in series:
        first, last = one.points[0], one.points[-1]
        row = Row(f"{one.label}, the first {first.jobs:,} jobs", [first.claim_us], ours=True)
        rows.append(row)
        row = Row(f"{one.label}, the last of {last.jobs:,} jobs", [last.claim_us], ours=True)
        row.extra = {
            "times_of_the_first": last.claim_us / first.claim_us,
            "table_and_indexes_MB": last.table_mb + last.indexes_mb,
        }
        rows.append(row)
    table = ChurnMeasure(
        "churn", "Many jobs through one table: claim of 64", "µs/job", rows, False, series=series
    )
    if plan.quick:
        table.notes.append("A short run: few jobs, and hardly a visit of autovacuum.")
    for one in series:
        table.notes += _written(one, jobs)
    return [table]


async def _measure(alone: str, read: str, jobs: int, size: int, seconds: float) -> list[Series]:
    series = [Series("alone"), Series("beside an open reader")]
    until = time.monotonic() + seconds
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(address)) for address in (alone, read)]
        # The reader must read something, or it has no snapshot.
        await _slice(stores[1], BATCH)
        reader = stack.enter_context(psycopg.connect(read))
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM coatcheck.jobs")
        for first in range(0, jobs, size):
            for one, store, address in zip(series, stores, (alone, read), strict=True):
                if time.monotonic() > until:
                    one.cut = True
                    continue
                start = time.monotonic()
                claim_us = await _slice(store, min(size, jobs - first))
                taken = time.monotonic() - start
                sizes = await asyncio.to_thread(_sizes, address)
                one.points.append(_point(min(first + size, jobs), claim_us, taken, sizes))
    return series


async def _slice(store: PostgresStore, jobs: int) -> float:
    """Process jobs; return the median time of a full claim per job."""
    for first in range(0, jobs, AT_ONCE):
        count = min(AT_ONCE, jobs - first)
        await store.jobs.submit_batch([new_job(KEPT) for _ in range(count)], _now())
    taken, left = [], jobs
    while left:
        start = time.perf_counter()
        claims = (await store.workers.claim(WORKER, [KIND], BATCH, _now())).claims
        if len(claims) == BATCH:
            taken.append(1e6 * (time.perf_counter() - start) / BATCH)
        assert claims, f"{left} jobs are not there"
        left -= len(claims)
        done = [Settlement(claim.lease, Succeeded('{"n":1}')) for claim in claims]
        assert all(await store.workers.settle(done, _now()))
    while (await store.maintenance.sweep(_now() + 1)).more:
        pass
    return statistics.median(taken) if taken else 0.0


def _sizes(address: str) -> tuple[Any, ...]:
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute(SIZES).fetchone()
    assert row is not None
    return row


def _point(jobs: int, claim_us: float, taken: float, sizes: tuple[Any, ...]) -> Point:
    table, indexes, others, claimable, dead = sizes
    return Point(
        jobs=jobs,
        claim_us=claim_us,
        slice_s=taken,
        table_mb=table / MB,
        indexes_mb=indexes / MB,
        claimable_mb=claimable / MB,
        others_mb=others / MB,
        dead_rows=dead,
    )


def _written(series: Series, jobs: int) -> list[str]:
    """Format evenly spaced slices of a series, including the last."""
    points = series.points
    step = max(1, len(points) // SHOWN)
    shown = points[::-step][::-1]
    lines = ["", f"{series.label.capitalize()}:", ""]
    if series.cut:
        done = points[-1].jobs if points else 0
        lines += [f"**Cut** when its time was up: {done:,} of {jobs:,} jobs.", ""]
    lines.append(
        "| jobs so far | claim, µs/job | slice, s | jobs table, MB | its indexes, MB | of them "
        "`jobs_claimable`, MB | listing and events, MB | dead rows (estimate) |"
    )
    lines.append("|---|---|---|---|---|---|---|---|")
    lines += [
        f"| {p.jobs:,} | {p.claim_us:.0f} | {p.slice_s:.1f} | {p.table_mb:.1f} | "
        f"{p.indexes_mb:.1f} | {p.claimable_mb:.1f} | {p.others_mb:.1f} | {p.dead_rows:,} |"
        for p in shown
    ]
    return lines


def _now() -> int:
    return time.time_ns() // 1_000_000
