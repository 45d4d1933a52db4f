"""Commits per second beside computing threads, by the interpreter's switch interval.

A computing thread holds the interpreter for a whole interval whenever another thread requests it.
The writer thread requests it several times per batch, so our processes shorten the interval.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.peers.protocol import payload
from benchmarks.plan import Plan
from benchmarks.results import Measure, Row
from coatcheck.cli.server.runtime import SWITCH_INTERVAL_S, new_event_loop
from coatcheck.ids import UlidGenerator
from coatcheck.model.job import JobInsert
from coatcheck.store.sqlite.store import SQLiteStore

COMPUTING = 2
PYTHONS_DEFAULT_S = 0.005


def measure(plan: Plan) -> list[Measure]:
    """Measure one caller with a commit per job, beside two computing threads."""
    rows = {
        PYTHONS_DEFAULT_S: Row(f"{PYTHONS_DEFAULT_S * 1000:g} ms, Python's default"),
        SWITCH_INTERVAL_S: Row(f"{SWITCH_INTERVAL_S * 1000:g} ms, as `serve` sets it", ours=True),
    }
    before = sys.getswitchinterval()
    try:
        for _ in range(plan.rounds):
            for interval, row in rows.items():
                sys.setswitchinterval(interval)
                row.samples.append(_commits_per_second(plan))
    finally:
        sys.setswitchinterval(before)
    title = f"Commits beside {COMPUTING} computing threads, by switch interval"
    return [Measure("switch-interval", title, "commits/s", list(rows.values()))]


def _commits_per_second(plan: Plan) -> float:
    stop = threading.Event()
    threads = [threading.Thread(target=_compute, args=(stop,)) for _ in range(COMPUTING)]
    for thread in threads:
        thread.start()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="switch-", dir=plan.folder) as folder,
            asyncio.Runner(loop_factory=new_event_loop) as runner,
        ):
            return runner.run(_submit(Path(folder) / "coatcheck.db", plan.seconds))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _compute(stop: threading.Event) -> None:
    turns = 0
    while not stop.is_set():
        for _ in range(100_000):
            turns += 1


async def _submit(path: Path, seconds: float) -> float:
    store, new_id = SQLiteStore(path), UlidGenerator()
    await store.open()
    start, count = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        now = time.time_ns() // 1_000_000
        await store.jobs.submit(JobInsert(new_id(), "job", str(payload(count)), now, now), now)
        count += 1
    taken = time.monotonic() - start
    await store.close()
    return count / taken
