"""The app that a crowd of processes works on; every start of an attempt is written down."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from coatcheck import App, Context, NewJob, Retry

app = App()

TENANTS = ("default", "ada", "grace")
QUEUES = ("first", "second", "third")


def record(ctx: Context) -> None:
    """Append a line; the file is opened so that lines of many processes never mix."""
    line = f"{ctx.job_id} {ctx.attempt} {os.getpid()}\n".encode()
    starts = os.environ["CROWD_STARTS"]
    descriptor = os.open(starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line)
    os.close(descriptor)


@app.job
async def quick(ctx: Context, n: int) -> int:
    record(ctx)
    return n * 2


@app.job
def threaded(ctx: Context, n: int) -> int:
    record(ctx)
    ctx.progress(1, 1, "done")
    return n * 2


@app.job
async def second_try(ctx: Context, n: int) -> int:
    record(ctx)
    if ctx.attempt == 1:
        raise Retry(after=0.05)
    return n * 2


@app.job
async def meets(ctx: Context, workers: int) -> int:
    """Work that ends when so many processes have begun such work: nobody may be left without."""
    record(ctx)
    while len(pids_in(Path(os.environ["CROWD_STARTS"]))) < workers:  # noqa: ASYNC110 - they tell nobody
        await asyncio.sleep(0.02)
    return 2 * workers


def pids_in(starts: Path) -> set[int]:
    """Return which processes have started anything."""
    return {int(line.split()[2]) for line in starts.read_text().splitlines()}


def jobs_for(tenant: str, count: int) -> list[NewJob]:
    """Return what a tenant hands in at one server."""
    kinds = ("quick", "second_try", "threaded")
    shift = TENANTS.index(tenant)
    return [
        NewJob(kinds[n % 3], n, queue=QUEUES[(n // 3 + shift) % 3], priority=n % 5 - 2)
        for n in range(count)
    ]
