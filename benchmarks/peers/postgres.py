"""What all systems on PostgreSQL share: the database they are given, and looking into it.

The server and the databases are made by `benchmarks.postgres`, a fresh database for every run; its
address comes in the environment. Apart from that they speak the same protocol as everybody.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from benchmarks.peers import protocol

DATABASE = "BENCH_POSTGRES"
# Poll interval for finished handlers; the database is queried only after the last.
RAN_EVERY_S = 0.002
SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level")

Submit = Callable[[int, int], Awaitable[object]]


def database() -> str:
    """Return the address of the database of this run."""
    return os.environ[DATABASE]


def settings_of(rows: list[Any]) -> dict[str, str]:
    """Make a mapping of rows of (name, setting)."""
    return {str(name): str(value) for name, value in rows}


def settings_query() -> str:
    """Return the query that a system's own connection is asked."""
    names = ", ".join(f"'{name}'" for name in SETTINGS)
    return f"SELECT name, setting FROM pg_settings WHERE name IN ({names})"


def until_done(
    unfinished: str, finished: str, jobs: int, ran: Callable[[], int] | None = None
) -> float:
    """Return when the last job was done, by its rows.

    Where the handlers are in this process they are counted first, so that nobody queries the
    tables while they are being measured: with many dead rows such a look is not for free.
    """
    deadline = time.monotonic() + protocol.PATIENCE_S
    while ran is not None and ran() < jobs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{ran()} of {jobs} jobs had run after {protocol.PATIENCE_S:.0f} s")
        time.sleep(RAN_EVERY_S)
    with psycopg.connect(database(), autocommit=True) as reader:

        def look(sql: str) -> list[Any]:
            return reader.execute(sql.encode()).fetchall()

        return protocol.wait_until_done(look, unfinished, finished, jobs)


def look_once(sql: str) -> Any:
    """Read one value."""
    with psycopg.connect(database(), autocommit=True) as reader:
        row = reader.execute(sql.encode()).fetchone()
    assert row is not None
    return row[0]


async def submit_jobs(
    submit: Submit, callers: int, seconds: float, *, batch: int = 1, most: int = protocol.MOST_JOBS
) -> dict[str, Any]:
    """Call `submit(first, count)` from concurrent tasks, each waiting for its commit."""
    firsts = itertools.count(0, batch)
    start = time.monotonic()
    until = start + seconds

    async def call() -> int:
        count = 0
        while time.monotonic() < until and (first := next(firsts)) < most:
            await submit(first, batch)
            count += batch
        return count

    counts = await asyncio.gather(*(call() for _ in range(callers)))
    return {"started": start, "jobs": sum(counts), "seconds": time.monotonic() - start}


async def pick_up(
    submit: Callable[[int], Awaitable[object]],
    called: Any,
    started: dict[int, float],
    count: int,
) -> dict[str, Any]:
    """Time how long a job waits for an idle worker; `called` is set by the handler."""
    latencies = []
    gaps = protocol.idle_gaps(count)
    while (number := await asyncio.to_thread(next, gaps, None)) is not None:
        called.clear()
        submitted = time.monotonic()
        await submit(number)
        if not await asyncio.to_thread(called.wait, 10):
            raise TimeoutError("a job was not picked up within 10 s")
        latencies.append((started[number] - submitted) * 1000)
    return {"milliseconds": latencies}
