"""Claims on a database that has grown: finished jobs, or a long queue, against an empty one.

As on SQLite: the databases are built by copying one real job with its log; the claims are the
store's own, commits included, in turns from all of them. Waiting for the disk hides growth in the
wall time, so the CPU time of the server's connections has the same goal.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from benchmarks.measures.claim_growth import BATCHES, KIND, WARM_UP, Size
from benchmarks.plan import Plan
from benchmarks.postgres.server import Server
from benchmarks.results import Bar, Measure, Row
from coatcheck.ids import UlidGenerator, first_ulid_at
from coatcheck.model.job import JobInsert, Terms
from coatcheck.model.outcome import Succeeded
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Settlement
from coatcheck.store.postgres.store import PostgresStore

WORKER = "bench"
# The tables with rows of a job, and the column with its id.
COPIED = {"jobs": "id", "listing": "id", "events": "job_id"}
AS_USUAL = Terms()

new_id = UlidGenerator()


def sizes(plan: Plan) -> list[Size]:
    """Return the databases to compare, the empty one first."""
    most = 50_000 if plan.quick else 1_000_000
    middle = [] if plan.quick else [Size("100,000 finished", finished=100_000)]
    return [
        Size("empty"),
        *middle,
        Size(f"{most:,} finished", finished=most),
        Size(f"{most:,} pending", pending=most),
    ]


def measure(plan: Plan, server: Server) -> list[Measure]:
    """Build the databases, then claim from each in turns."""
    claims = 20 if plan.quick else 100
    with contextlib.ExitStack() as stack:
        # Databases, not schemas: each has its own tables, statistics and connections.
        compared = [(size, stack.enter_context(server.fresh_database())) for size in sizes(plan)]
        return asyncio.run(_measure(compared, claims))


@dataclass
class Timed:
    """The claims from one database."""

    row: Row
    store: PostgresStore
    backends: list[int]
    cpu_us: list[float] = field(default_factory=list)

    async def claim(self, batch: int, *, counts: bool) -> None:
        """Claim once."""
        start, cpu = time.perf_counter(), self._cpu_ns()
        claimed = await self.store.workers.claim(WORKER, [KIND], batch, _now())
        wall, cpu = time.perf_counter() - start, self._cpu_ns() - cpu
        assert len(claimed.claims) == batch, f"{len(claimed.claims)} of {batch} jobs were there"
        if counts:
            self.row.samples.append(1e6 * wall / batch)
            self.cpu_us.append(cpu / 1e3 / batch)

    def _cpu_ns(self) -> int:
        stats = (Path(f"/proc/{pid}/schedstat").read_text() for pid in self.backends)
        return sum(int(text.split()[0]) for text in stats)


async def _measure(compared: list[tuple[Size, str]], claims: int) -> list[Measure]:
    tables = []
    async with contextlib.AsyncExitStack() as stack:
        stores = []
        for size, address in compared:
            await _build(address, size, (claims + WARM_UP) * sum(BATCHES))
            stores.append(await stack.enter_async_context(opened(address)))
        for batch in BATCHES:
            timed = [
                Timed(Row(size.label, ours=True), store, _backends(address))
                for (size, address), store in zip(compared, stores, strict=True)
            ]
            for number in range(claims + WARM_UP):
                for one in timed:
                    await one.claim(batch, counts=number >= WARM_UP)
            for one in timed:
                one.row.extra["server_cpu_us_per_job"] = statistics.median(one.cpu_us)
            tables.append(_table([one.row for one in timed], batch))
    return tables


def _table(rows: list[Row], batch: int) -> Measure:
    empty, empty_cpu = statistics.median(rows[0].samples), rows[0].extra["server_cpu_us_per_job"]
    title = f"Claim of {batch} jobs, by what is stored"
    table = Measure(f"claim-growth-{batch}", title, "µs/job", rows, False)
    for row in rows[1:]:
        grown = statistics.median(row.samples) / empty
        grown_cpu = row.extra["server_cpu_us_per_job"] / empty_cpu
        row.extra["times_of_empty"] = grown
        reached = f"{grown:.2f} × (the server's CPU time {grown_cpu:.2f} ×)"
        met = max(grown, grown_cpu) <= 1.3
        table.bars.append(Bar(f"{row.label}: at most 1.3 × empty", reached, met))
    return table


@contextlib.asynccontextmanager
async def opened(address: str) -> AsyncIterator[PostgresStore]:
    """Open a store with a worker registered."""
    store = PostgresStore(address, connections=2)
    await store.open()
    await store.workers.register_worker(WorkerInfo(WORKER, "bench", 0, (KIND,), 64, _now()))
    try:
        yield store
    finally:
        await store.close()


async def _build(address: str, size: Size, jobs_to_claim: int) -> None:
    copies = size.finished or size.pending
    async with opened(address) as store:
        template = new_job()
        await store.jobs.submit(template, _now())
        if size.finished:
            [claim] = (await store.workers.claim(WORKER, [KIND], 1, _now())).claims
            await store.workers.settle([Settlement(claim.lease, Succeeded('{"n":1}'))], _now())
        if not size.pending:
            for first in range(0, jobs_to_claim, 1000):
                count = min(1000, jobs_to_claim - first)
                await store.jobs.submit_batch([new_job() for _ in range(count)], _now())
        await store.workers.remove_worker(WORKER, None, _now())
    await asyncio.to_thread(_multiply, address, template.id, copies)


def _multiply(address: str, template: str, copies: int) -> None:
    """Copy a job's rows under other, older ids, in the order of the ids; then vacuum."""
    oldest = first_ulid_at(_now() - 86_400_000)[:16]
    with psycopg.connect(address, autocommit=True) as connection:
        for table, key in COPIED.items():
            columns = [
                name
                for (name,) in connection.execute(
                    "SELECT column_name FROM information_schema.columns "
                    "WHERE table_schema = 'coatcheck' AND table_name = %s "
                    "AND is_generated = 'NEVER' "
                    "ORDER BY ordinal_position",
                    (table,),
                )
            ]
            values = [f"'{oldest}' || lpad(n::text, 10, '0')" if c == key else c for c in columns]
            copy = (
                f"INSERT INTO coatcheck.{table} ({', '.join(columns)}) "
                f"SELECT {', '.join(values)} FROM generate_series(1, {copies}) AS number(n), "
                f"coatcheck.{table} WHERE {key} = '{template}'"
            )
            connection.execute(copy.encode())
            connection.execute(f"VACUUM (ANALYZE) coatcheck.{table}".encode())
        connection.execute("CHECKPOINT")


def _backends(address: str) -> list[int]:
    with psycopg.connect(address, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return [pid for (pid,) in found]


def new_job(terms: Terms = AS_USUAL) -> JobInsert:
    """Create a job that is due now."""
    now = _now()
    return JobInsert(new_id(), KIND, '{"n":1}', created_at=now, run_at=now, terms=terms)


def _now() -> int:
    return time.time_ns() // 1_000_000
