"""Procrastinate on PostgreSQL. Variants: `single`, jobs deferred one by one, `batched`, in lists.

Its asynchronous connector, a psycopg pool. A finished job stays as a row with its events; what the
task returns is kept nowhere.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector

from benchmarks.peers import postgres, protocol

# Jobs a worker runs at once; its default is 1.
BEST_CONCURRENCY = 4
CONNECTIONS = 20
IN_A_LIST = 500
UNFINISHED = "SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1"
FINISHED = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"


class System:
    """Procrastinate with two tasks, in a database."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.concurrency = options.workers or BEST_CONCURRENCY
        self.in_a_list = IN_A_LIST if options.variant == "batched" else 1
        self.ran = 0
        self.started: dict[int, float] = {}
        self.called = threading.Event()
        self.app = App(
            connector=PsycopgConnector(
                conninfo=postgres.database(), min_size=CONNECTIONS, max_size=CONNECTIONS
            )
        )

        @self.app.task(name="job")
        async def job(data: dict[str, int]) -> dict[str, int]:
            self.ran += 1
            return data

        @self.app.task(name="stamp")
        async def stamp(data: dict[str, int]) -> None:
            self.started[data["n"]] = time.monotonic()
            self.called.set()

        self.job, self.stamp = job, stamp

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect and create the tables."""
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()
            yield

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run a worker on this loop."""
        working = asyncio.create_task(
            self.app.run_worker_async(
                concurrency=self.concurrency,
                install_signal_handlers=False,
                fetch_job_polling_interval=1.0,
            )
        )
        try:
            yield
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def submit(self, first: int, count: int) -> None:
        """Submit a job or a list of jobs; they are committed when this returns."""
        if count == 1:
            await self.job.defer_async(data=protocol.payload(first))
            return
        each = [{"data": protocol.payload(number)} for number in range(first, first + count)]
        await self.job.batch_defer_async(*each)

    async def until_done(self, jobs: int) -> float:
        """Wait for the last job to be called succeeded."""
        return await asyncio.to_thread(
            postgres.until_done, UNFINISHED, FINISHED, jobs, lambda: self.ran
        )


async def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from Procrastinate's connection."""
    system = System(options)
    async with system.opened():
        rows = await system.app.connector.execute_query_all_async(postgres.settings_query())
    return {
        "version": importlib.metadata.version("procrastinate"),
        **postgres.settings_of([(row["name"], row["setting"]) for row in rows]),
        "settings": f"async, psycopg pool of {CONNECTIONS}, concurrency {system.concurrency}",
    }


async def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    system = System(options)
    async with system.opened():
        measured = await postgres.submit_jobs(
            system.submit, options.callers, options.seconds, batch=system.in_a_list
        )
    stored = postgres.look_once("SELECT count(*) FROM procrastinate_jobs")
    assert stored == measured["jobs"], f"{measured['jobs']} submitted, {stored} stored"
    return protocol.rate(measured)


async def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    system = System(options)
    async with system.opened():
        jobs = (await postgres.submit_jobs(system.submit, 1, options.seconds))["jobs"]
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
        submitted = await postgres.submit_jobs(system.submit, options.callers, options.seconds)
        end = await system.until_done(submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


async def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    system = System(options)
    async with system.opened(), system.working():
        await asyncio.sleep(0.5)

        async def submit(number: int) -> None:
            await system.stamp.defer_async(data=protocol.payload(number))

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
