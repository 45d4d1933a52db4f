"""Claims on a database that has grown: finished jobs, or a long queue, against an empty one.

The databases are built by copying one real job, with its payloads and its log, as often as needed:
the copies have all columns of the schema. Only the copying skips syncs; the claims are the store's
own, commits included, in turns from all databases.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import jobs
from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row, percentile
from coatcheck.cli.server.runtime import open_engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.ids import UlidGenerator, first_ulid_at
from coatcheck.model.job import JobInsert
from coatcheck.model.state import State
from coatcheck.model.worker import WorkerInfo
from coatcheck.settings import Settings
from coatcheck.store.sqlite.database.connection import connect
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker

BATCHES = (16, 64)
WARM_UP = 5
KIND = "job"
NOTE = (
    "Every claim waits for a sync, which has nothing to do with growth and varies most of all. So "
    "the bar compares the 20th percentiles, claims the disk did not hold up, and the CPU time has "
    "to stay within it too; the ratio of the medians, disk included, is given beside."
)
# The tables with rows of a job, and the column with its id.
COPIED = {"jobs": "id", "payloads": "job_id", "events": "job_id"}

new_id = UlidGenerator()


@dataclass(frozen=True)
class Size:
    """The content of a database before the claims."""

    label: str
    finished: int = 0
    pending: int = 0


def sizes(plan: Plan) -> list[Size]:
    """Return the databases to compare, the empty one first."""
    if plan.quick:
        return [
            Size("empty"),
            Size("100,000 finished", finished=100_000),
            Size("100,000 pending", pending=100_000),
        ]
    return [
        Size("empty"),
        Size("100,000 finished", finished=100_000),
        Size("1,000,000 finished", finished=1_000_000),
        Size("1,000,000 pending", pending=1_000_000),
    ]


def measure(plan: Plan) -> list[Measure]:
    """Build the databases, then claim from each in turns."""
    claims = 30 if plan.quick else 40 * plan.rounds
    folder = Path(tempfile.mkdtemp(prefix="claims-", dir=plan.folder))
    try:
        return asyncio.run(_measure(folder, sizes(plan), claims))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(folder: Path, compared: list[Size], claims: int) -> list[Measure]:
    tables = []
    async with contextlib.AsyncExitStack() as stack:
        stores = []
        for number, size in enumerate(compared):
            path = folder / f"{number}.db"
            await _build(path, size, jobs_to_claim=(claims + WARM_UP) * sum(BATCHES))
            stores.append(await stack.enter_async_context(_opened(path)))
        for batch in BATCHES:
            rows = [Row(size.label, ours=True) for size in compared]
            cpu: list[list[float]] = [[] for _ in compared]
            for number in range(claims + WARM_UP):
                for row, costs, store in zip(rows, cpu, stores, strict=True):
                    wall_s, cpu_s = await _timed_claim(store, batch)
                    if number >= WARM_UP:
                        row.samples.append(1e6 * wall_s / batch)
                        costs.append(1e6 * cpu_s / batch)
            for row, costs in zip(rows, cpu, strict=True):
                row.extra["cpu_us_per_job"] = statistics.median(costs)
            tables.append(_table(rows, batch))
    return tables


def _table(rows: list[Row], batch: int) -> Measure:
    title = f"Claim of {batch} jobs, by what is stored"
    table = Measure(f"claim-growth-{batch}", title, "µs/job", rows, False)
    empty, empty_cpu = _undisturbed(rows[0]), rows[0].extra["cpu_us_per_job"]
    for row in rows[1:]:
        grown = _undisturbed(row) / empty
        grown_cpu = row.extra["cpu_us_per_job"] / empty_cpu
        row.extra["times_of_empty"] = grown
        median = statistics.median(row.samples) / statistics.median(rows[0].samples)
        reached = f"{grown:.2f} × (CPU time {grown_cpu:.2f} ×; medians {median:.2f} ×)"
        met = max(grown, grown_cpu) <= 1.3
        table.bars.append(Bar(f"{row.label}: at most 1.3 × empty", reached, met))
    table.notes = [NOTE]
    return table


def _undisturbed(row: Row) -> float:
    return percentile(row.samples, 0.2)


async def _timed_claim(store: SQLiteStore, batch: int) -> tuple[float, float]:
    now = _now()
    start, cpu = time.perf_counter(), time.process_time()
    claimed = await store.workers.claim("bench", [KIND], batch, now)
    taken = time.perf_counter() - start, time.process_time() - cpu
    assert len(claimed.claims) == batch, f"{len(claimed.claims)} of {batch} jobs were there"
    return taken


@contextlib.asynccontextmanager
async def _opened(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    await store.open()
    await store.workers.register_worker(WorkerInfo("bench", "bench", 0, (KIND,), 64, _now()))
    try:
        yield store
    finally:
        await store.close()


async def _build(path: Path, size: Size, jobs_to_claim: int) -> None:
    if size.finished:
        await asyncio.to_thread(_multiply, path, await _finished_job(path), size.finished)
    if size.pending:
        await asyncio.to_thread(_multiply, path, await _pending_job(path), size.pending)
        return
    async with _opened(path) as store:
        for _ in range(0, jobs_to_claim, 1000):
            await store.jobs.submit_batch([_job() for _ in range(1000)], _now())
        await store.workers.remove_worker("bench", None, _now())


async def _pending_job(path: Path) -> str:
    """Submit one job and return its id."""
    job = _job()
    async with _opened(path) as store:
        await store.jobs.submit(job, _now())
        await store.workers.remove_worker("bench", None, _now())
    return job.id


async def _finished_job(path: Path) -> str:
    """Run one job with a real worker and return its id."""
    settings = Settings(database=f"sqlite:///{path}", log_level="error")
    stop = asyncio.Event()
    async with open_engine(jobs.app, settings) as engine:
        working = asyncio.create_task(Worker(engine, settings).run(stop))
        submitted = await engine.submit(Submission(KIND, '{"n":1}'))
        job = await engine.wait(submitted.id, timeout=30)
        stop.set()
        await working
    assert job.state is State.SUCCEEDED, job.state
    return job.id


def _multiply(path: Path, template: str, copies: int) -> None:
    """Copy a job's rows under other, older ids, in the order of the ids."""
    oldest = first_ulid_at(_now() - 86_400_000)[:16]
    with contextlib.closing(connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, key in COPIED.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            values = [f"'{oldest}' || printf('%010d', n)" if c == key else c for c in columns]
            connection.execute(
                f"CREATE TEMP TABLE template AS SELECT * FROM {table} WHERE {key} = ?", (template,)
            )
            connection.execute(
                f"WITH RECURSIVE numbers (n) AS "
                f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {copies}) "
                f"INSERT INTO main.{table} ({', '.join(columns)}) "
                f"SELECT {', '.join(values)} FROM numbers CROSS JOIN template"
            )
            connection.execute("DROP TABLE template")
        connection.wal_checkpoint()


def _job() -> JobInsert:
    return JobInsert(new_id(), KIND, '{"n":1}', created_at=_now(), run_at=_now())


def _now() -> int:
    return time.time_ns() // 1_000_000
