"""PgQueuer on PostgreSQL. Variants: `single`, jobs submitted one by one, and `batched`, in lists; a
number behind it (`batched-500`) is how many jobs a worker takes at once.

The driver is the pool of asyncpg, the tables are PgQueuer's default, all of them logged. A finished
job leaves a line in its log; what the handler returns is kept nowhere.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers import postgres, protocol

# Batch size of a worker; PgQueuer's default is 10.
BATCH = 50
CONNECTIONS = 10
IN_A_LIST = 500
UNFINISHED = "SELECT 1 FROM pgqueuer LIMIT 1"
FINISHED = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"


class System:
    """PgQueuer with two entrypoints, in a database."""

    def __init__(self, options: argparse.Namespace) -> None:
        kind, _, batch = options.variant.partition("-")
        self.batch = options.workers or int(batch or BATCH)
        self.in_a_list = IN_A_LIST if kind == "batched" else 1
        self.ran = 0
        self.started: dict[int, float] = {}
        self.called = threading.Event()
        self.pool: asyncpg.Pool
        self.queries: Queries

    @contextlib.asynccontextmanager
    async def opened(self, *, install: bool = True) -> AsyncIterator[None]:
        """Connect and create the tables."""
        async with asyncpg.create_pool(
            postgres.database(), min_size=CONNECTIONS, max_size=CONNECTIONS
        ) as self.pool:
            self.queries = Queries(AsyncpgPoolDriver(self.pool))
            if install:
                await self.queries.install()
            yield

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run a worker on this loop, with a pool of its own."""
        async with asyncpg.create_pool(
            postgres.database(), min_size=CONNECTIONS, max_size=CONNECTIONS
        ) as pool:
            queue = PgQueuer(AsyncpgPoolDriver(pool))

            @queue.entrypoint("job")
            async def job(job: Job) -> Any:
                self.ran += 1
                return json.loads(job.payload or b"null")

            @queue.entrypoint("stamp")
            async def stamp(job: Job) -> None:
                self.started[json.loads(job.payload or b"null")["n"]] = time.monotonic()
                self.called.set()

            working = asyncio.create_task(queue.run(batch_size=self.batch))
            try:
                yield
            finally:
                queue.shutdown.set()
                await working

    async def submit(self, first: int, count: int) -> None:
        """Submit a job or a list of jobs; they are committed when this returns."""
        if count == 1:
            await self.queries.enqueue("job", json.dumps(protocol.payload(first)).encode())
            return
        inputs = [json.dumps(protocol.payload(n)).encode() for n in range(first, first + count)]
        await self.queries.enqueue(["job"] * count, inputs, [0] * count)

    async def until_done(self, jobs: int, *, here: bool = True) -> float:
        """Wait for the last job's line in the log."""
        ran = (lambda: self.ran) if here else None
        return await asyncio.to_thread(postgres.until_done, UNFINISHED, FINISHED, jobs, ran)


async def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from PgQueuer's own connection."""
    system = System(options)
    async with system.opened():
        rows = await system.queries.driver.fetch(postgres.settings_query())
    submitted = "one by one" if system.in_a_list == 1 else f"in lists of {system.in_a_list}"
    return {
        "version": importlib.metadata.version("pgqueuer"),
        **postgres.settings_of([(row["name"], row["setting"]) for row in rows]),
        "settings": f"asyncpg pool, batches of {system.batch}, submitted {submitted}",
    }


async def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    system = System(options)
    async with system.opened():
        measured = await postgres.submit_jobs(
            system.submit, options.callers, options.seconds, batch=system.in_a_list
        )
    stored = postgres.look_once("SELECT count(*) FROM pgqueuer")
    assert stored == measured["jobs"], f"{measured['jobs']} submitted, {stored} stored"
    return protocol.rate(measured)


async def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    system = System(options)
    async with system.opened():
        jobs = (await postgres.submit_jobs(system.submit, 1, options.seconds, batch=IN_A_LIST))[
            "jobs"
        ]
        start, cpu = time.monotonic(), protocol.cpu_seconds()
        async with system.working():
            end = await system.until_done(jobs)
            cpu = protocol.cpu_seconds() - cpu
    return protocol.rate({"jobs": jobs, "seconds": end - start}, cpu)


async def end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs while a worker runs."""
    system = System(options)
    async with system.opened(), system.working():
        await asyncio.sleep(0.5)
        submitted = await postgres.submit_jobs(
            system.submit, options.callers, options.seconds, batch=system.in_a_list
        )
        end = await system.until_done(submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


async def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    system = System(options)
    async with system.opened(), system.working():
        await asyncio.sleep(0.5)

        async def submit(number: int) -> None:
            await system.queries.enqueue("stamp", json.dumps(protocol.payload(number)).encode())

        return await postgres.pick_up(submit, system.called, system.started, options.count)


def _on_uvloop(verb: Any) -> protocol.Verb:
    def run(options: argparse.Namespace) -> dict[str, Any]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            answer: dict[str, Any] = runner.run(verb(options))
            return answer

    return run


if __name__ == "__main__":
    protocol.main(
        {
            "describe": _on_uvloop(describe),
            "enqueue": _on_uvloop(enqueue),
            "drain": _on_uvloop(drain),
            "end-to-end": _on_uvloop(end_to_end),
            "pickup": _on_uvloop(pickup),
        }
    )
