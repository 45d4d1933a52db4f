"""The cost of limits and fairness for a claim: the same claims with and without them, in turns.

Every variation has its own database, with enough jobs, and limits with capacity, so that each claim
is filled; its jobs are settled before the next. One variation has 50,000 jobs of a full limit key
ahead of its other jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.plan import Plan
from benchmarks.results import Bar, Measure, Row, percentile
from coatcheck.ids import UlidGenerator
from coatcheck.model.job import DEFAULT_TENANT, JobInsert
from coatcheck.model.limit import Limit, read_rate
from coatcheck.model.outcome import Succeeded
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Settlement, Store
from coatcheck.store.sqlite.store import SQLiteStore

KIND, WORKER, BATCH, WARM_UP = "job", "bench", 16, 5
FULL_LANE = 50_000
NOTE = (
    "The ratios compare the 20th percentiles: claims that neither disk nor machine held up. "
    "The CPU time is this process's own. Logs and payloads lie by tenant, so that jobs of many "
    "tenants are on many pages, which each have to be written."
)

Opener = Callable[[], contextlib.AbstractAsyncContextManager[Store]]

new_id = UlidGenerator()


@dataclass(frozen=True)
class Variation:
    """Claims with certain limits, tenants and keys."""

    label: str
    limits: dict[str, Limit] = field(default_factory=dict)
    tenants: int = 0  # 0: no keys
    keys: int = 0
    queue_limit: int | None = None
    full_lane: int = 0


VARIATIONS = (
    Variation("no limit, one tenant"),
    Variation("no limit, 100 tenants", tenants=100),
    Variation("64 of the kind", {KIND: Limit(64)}),
    Variation("64 of the queue", queue_limit=64),
    Variation("a rate", {KIND: Limit(rate=read_rate("1000000/s", "rate"))}),
    Variation("8 of each of 100 keys", {KIND: Limit(8, by_key=True)}, keys=100),
    Variation(
        f"1 of a key, {FULL_LANE:,} jobs wait for it",
        {KIND: Limit(1, by_key=True)},
        full_lane=FULL_LANE,
    ),
)


def measure(plan: Plan) -> list[Measure]:
    """Claim from a database of each variation in turns."""
    folder = Path(tempfile.mkdtemp(prefix="limits-", dir=plan.folder))
    openers = [_sqlite(folder / f"{number}.db") for number in range(len(VARIATIONS))]
    try:
        return asyncio.run(compare(openers, claims=40 if plan.quick else 60 * plan.rounds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sqlite(path: Path) -> Opener:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        store = SQLiteStore(path)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return opened


async def compare(openers: list[Opener], claims: int) -> list[Measure]:
    """Claim in turns and return each variation's cost per job."""
    rows = [Row(each.label, ours=True) for each in VARIATIONS]
    cpu: dict[str, list[float]] = {row.label: [] for row in rows}
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opener()) for opener in openers]
        for store, variation in zip(stores, VARIATIONS, strict=True):
            await _fill(store, variation, (claims + WARM_UP) * BATCH)
        for number in range(claims + WARM_UP):
            for row, store, variation in zip(rows, stores, VARIATIONS, strict=True):
                wall_s, cpu_s = await _timed_claim(store, variation)
                if number >= WARM_UP:
                    row.samples.append(1e6 * wall_s / BATCH)
                    cpu[row.label].append(1e6 * cpu_s / BATCH)
    table = Measure(
        "limits", f"Claim of {BATCH} jobs, by what limits them", "µs/job", rows, False, notes=[NOTE]
    )
    plain = percentile(rows[0].samples, 0.2)
    for row in rows:
        row.extra["cpu_us_per_job"] = statistics.median(cpu[row.label])
        row.extra["claims_per_s"] = 1e6 / BATCH / statistics.median(row.samples)
    for row in rows[1:]:
        times = percentile(row.samples, 0.2) / plain
        row.extra["times_of_no_limit"] = times
        table.bars.append(Bar(f"{row.label}: × of no limit", f"{times:.2f} ×", None))
    return [table]


async def _fill(store: Store, variation: Variation, jobs: int) -> None:
    await store.workers.register_worker(WorkerInfo(WORKER, WORKER, 0, (KIND,), BATCH, _now()))
    if variation.queue_limit is not None:
        await store.queues.limit_queue("default", variation.queue_limit)
    if variation.full_lane:
        for _ in range(0, variation.full_lane, 5_000):
            await store.jobs.submit_batch([_job(key="full") for _ in range(5_000)], _now())
        [_] = (await store.workers.claim(WORKER, [KIND], 1, _now(), variation.limits)).claims
    for first in range(0, jobs, 1_000):
        new = [
            _job(
                f"tenant-{number % variation.tenants}" if variation.tenants else DEFAULT_TENANT,
                f"key-{number % variation.keys}" if variation.keys else None,
            )
            for number in range(first, first + 1_000)
        ]
        await store.jobs.submit_batch(new, _now())


async def _timed_claim(store: Store, variation: Variation) -> tuple[float, float]:
    start, cpu = time.perf_counter(), time.process_time()
    claims = (await store.workers.claim(WORKER, [KIND], BATCH, _now(), variation.limits)).claims
    taken = time.perf_counter() - start, time.process_time() - cpu
    assert len(claims) == BATCH, f"{variation.label}: {len(claims)} of {BATCH} jobs"
    await store.workers.settle(
        [Settlement(claim.lease, Succeeded("1")) for claim in claims], _now()
    )
    return taken


def _job(tenant: str = DEFAULT_TENANT, key: str | None = None) -> JobInsert:
    now = _now()
    return JobInsert(
        new_id(), KIND, '{"n":1}', created_at=now, run_at=now, tenant=tenant, limit_key=key
    )


def _now() -> int:
    return time.time_ns() // 1_000_000
