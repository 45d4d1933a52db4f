"""The app that a crowd of processes works on; every start and end of an attempt is written down.

`python -m tests.postgres.crowd_app FOLDER SCHEMA SUBMITTER JOBS` (the DSN is read from FOLDER/dsn)
submits jobs to it: several kinds, queues, priorities and tenants, in every way there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from coatcheck import App, Context, Retry
from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import Submission, prepare
from coatcheck.store.postgres.store import PostgresStore
from tests.store.another_process import listen, say

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


def submissions(submitter: int, count: int) -> list[Submission]:
    """Return what one submitter hands in."""
    kinds = sorted(app.kinds)
    return [
        Submission(
            kinds[n % 3],
            json.dumps(n),
            queue=QUEUES[n // 3 % 3],
            priority=n % 5 - 2,
            tenant=TENANTS[n // 9 % 3],
            public_id=f"crowd-{submitter}-{n}" if n % 4 == 0 else None,
        )
        for n in range(count)
    ]


async def submit_all(folder: str, schema: str, submitter: str, count: str) -> None:
    dsn = (Path(folder) / "dsn").read_text()
    store = PostgresStore(dsn, schema=schema, connections=4)
    await store.open()
    engine = Engine(store, app.kinds)
    say("ready")
    await asyncio.to_thread(listen)
    asked = submissions(int(submitter), int(count))
    third = len(asked) // 3
    now = engine.clock.now()
    jobs = [prepare(one, app.kinds, engine.new_id(), now) for one in asked]
    for job in jobs[: third // 4]:
        await store.submit(job, now)
    await asyncio.gather(*(store.submit(job, now) for job in jobs[third // 4 : third]))
    for start in range(third, len(jobs), 100):
        await store.submit_batch(jobs[start : start + 100], now)
    await store.close()


if __name__ == "__main__":
    asyncio.run(submit_all(*sys.argv[1:]))
