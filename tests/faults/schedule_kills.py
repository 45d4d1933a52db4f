"""A server that fires schedules: `python -m tests.faults.schedule_kills SETTINGS`.

Each line of its standard input is a time. It fires the schedules that are due then, and reports
that. If the line also names a failpoint, it kills itself there: *before* it calls the store,
*inside* the transaction with the job inserted, or *after* the commit.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.settings import Settings
from coatcheck.store.open import store_for
from coatcheck.store.postgres.operations import jobs as postgres_jobs
from coatcheck.store.sqlite.operations import jobs as sqlite_jobs

POINTS = ("before", "inside", "after")

app = App()


@app.job
async def tick(ctx: Context) -> None: ...


class ToldClock:
    """A clock that says what it was told."""

    def __init__(self, now: int) -> None:
        self.milliseconds = now

    def now(self) -> int:
        return self.milliseconds

    def monotonic(self) -> float:
        return self.milliseconds / 1000


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def set_trap(store: Any, point: str) -> None:
    """Have this process end at a point of its next firing."""
    fire, insert, insert_many = (
        store.schedules.fire_schedule,
        sqlite_jobs.submit_all,
        postgres_jobs.submit,
    )

    async def trapped(*arguments: Any) -> Any:
        if point == "before":
            die()
        await fire(*arguments)
        die()

    def inserted(*arguments: Any) -> None:
        insert(*arguments)
        die()

    async def many_inserted(*arguments: Any, **named: Any) -> None:
        await insert_many(*arguments, **named)
        die()

    store.schedules.fire_schedule = trapped
    if point == "inside":
        vars(sqlite_jobs)["submit_all"] = inserted
        vars(postgres_jobs)["submit"] = many_inserted


async def main(settings: str) -> None:
    store = store_for(Settings(**json.loads(settings)))
    await store.open()
    clock = ToldClock(0)
    engine = Engine(store, app.kinds, clock)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        now, _, point = line.strip().partition(" ")
        if point:
            set_trap(store, point)
        clock.milliseconds = int(now)
        await engine.scheduler.fire_due()
        print("fired", flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
