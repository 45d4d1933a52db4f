"""Coatcheck on PostgreSQL, speaking the protocol of the peers.

It runs what `coatcheck serve` runs, with its defaults; variants `64` and `256` have that
concurrency, and `batched` has 256 and hands its jobs in in lists. Callers and worker share an
event loop, except where worker processes are asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import stepping
from benchmarks.peers import postgres, protocol
from benchmarks.serving import cpu_seconds
from coatcheck import App, Context
from coatcheck.cli.server.runtime import new_event_loop, open_engine, run_process
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.settings import Settings
from coatcheck.worker.worker import Worker

IN_A_LIST = 500
# 0 is the default, which goes by the number of cores.
CONCURRENCY = {"default": 0, "64": 64, "256": 256, "batched": 256}
UNFINISHED = "SELECT 1 FROM coatcheck.jobs WHERE state IN ('queued', 'running') LIMIT 1"
FINISHED = "SELECT count(*) FROM coatcheck.jobs WHERE state = 'succeeded'"
QUEUE = "default"

app = App()
stepping.declare_in(app)
ran = 0
started: dict[int, float] = {}
called = threading.Event()


@app.job
async def job(_ctx: Context, data: dict[str, int]) -> dict[str, int]:
    """Do nothing and return the input."""
    global ran  # noqa: PLW0603 - one loop runs all handlers
    ran += 1
    return data


@app.job
async def stamp(_ctx: Context, data: dict[str, int]) -> None:
    """Return the start time of the handler."""
    started[data["n"]] = time.monotonic()
    called.set()


class System:
    """Coatcheck in a database."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.in_a_list = IN_A_LIST if options.variant == "batched" else 1
        self.settings = Settings(
            database=postgres.database(),
            concurrency=CONCURRENCY[options.variant],
            log_level="error",
        )
        self._engine: Engine

    @contextlib.asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        """Open the store and the engine."""
        async with open_engine(app, self.settings) as self._engine:
            yield self._engine

    @contextlib.asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Run a worker on this loop."""
        stop, ready = asyncio.Event(), asyncio.Event()
        worker = Worker(self._engine, self.settings, new_loop=new_event_loop)
        working = asyncio.create_task(worker.run(stop, ready.set))
        await ready.wait()
        try:
            yield
        finally:
            stop.set()
            await working

    async def submit(self, first: int, count: int) -> None:
        """Submit a job or a list of jobs; they are committed when this returns."""
        if count == 1:
            await self._engine.submit(Submission("job", json.dumps(protocol.payload(first))))
            return
        await self._engine.insert_batch(
            [
                Submission("job", json.dumps(protocol.payload(number)))
                for number in range(first, first + count)
            ]
        )

    async def until_done(self, jobs: int, *, here: bool = True) -> float:
        """Wait for the last result; poll in a thread, because the loop is being measured."""
        count = (lambda: ran) if here else None
        return await asyncio.to_thread(postgres.until_done, UNFINISHED, FINISHED, jobs, count)


async def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from the store's own pool."""
    system = System(options)
    async with system.engine() as engine:
        database = engine.store.inner._database  # type: ignore[attr-defined]  # there is no public way
        rows = await database.run(
            lambda connection: connection.fetch(postgres.settings_query()), transaction=False
        )
    submitted = "one by one" if system.in_a_list == 1 else f"in lists of {system.in_a_list}"
    return {
        "version": importlib.metadata.version("coatcheck"),
        **postgres.settings_of([tuple(row) for row in rows]),
        "settings": f"{system.settings.slots} slots, woken by submits, submitted {submitted}",
    }


async def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    system = System(options)
    async with system.engine() as engine:
        cpu = protocol.cpu_seconds()
        measured = await postgres.submit_jobs(
            system.submit, options.callers, options.seconds, batch=system.in_a_list
        )
        cpu = protocol.cpu_seconds() - cpu
        [status] = await engine.queues()
        assert status.ready == measured["jobs"], f"{measured['jobs']} in, {status.ready} stored"
    return protocol.rate(measured, cpu)


async def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    system = System(options)
    async with system.engine():
        submitted = await postgres.submit_jobs(system.submit, 1, options.seconds, batch=IN_A_LIST)
        jobs = submitted["jobs"]
        start, cpu = time.monotonic(), protocol.cpu_seconds()
        async with system.worker():
            end = await system.until_done(jobs)
            cpu = protocol.cpu_seconds() - cpu
    return protocol.rate({"jobs": jobs, "seconds": end - start}, cpu)


async def end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs while a worker runs."""
    system = System(options)
    async with system.engine(), system.worker():
        submitted = await postgres.submit_jobs(
            system.submit, options.callers, options.seconds, batch=system.in_a_list
        )
        end = await system.until_done(submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


async def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    system = System(options)
    async with system.engine() as engine, system.worker():

        async def submit(number: int) -> None:
            await engine.submit(Submission("stamp", json.dumps(protocol.payload(number))))

        return await postgres.pick_up(submit, called, started, options.count)


async def steps(options: argparse.Namespace) -> dict[str, Any]:
    """Run `count` steps in each of `callers` concurrent jobs."""
    system = System(options)
    async with system.engine() as engine, system.worker():
        return await stepping.take(engine, options)


async def workers(options: argparse.Namespace) -> dict[str, Any]:
    """Drain `count` jobs with `workers` processes that are all up before the first job."""
    system = System(options)
    async with system.engine() as engine:
        await engine.pause_queue(QUEUE)
        for first in range(0, options.count, IN_A_LIST):
            await system.submit(first, min(IN_A_LIST, options.count - first))
        with contextlib.ExitStack() as stack:
            for _ in range(options.workers):
                stack.enter_context(protocol.worker_process(__spec__.name, options))
            server = _cpu_of_server()
            ours = _cpu_of_children()
            start, machine = time.monotonic(), _busy_seconds()
            await engine.resume_queue(QUEUE)
            end = await system.until_done(options.count, here=False)
            seconds = end - start
            busy = (_busy_seconds() - machine) / seconds
            ours = (_cpu_of_children() - ours) / seconds
            server = (_cpu_of_server() - server) / seconds
    answer = protocol.rate({"jobs": options.count, "seconds": seconds})
    return {**answer, "cores_busy": busy, "cores_workers": ours, "cores_database": server}


async def work(options: argparse.Namespace) -> dict[str, Any]:
    """Run one of several worker processes."""
    system = System(options)
    async with system.engine(), system.worker():
        await asyncio.to_thread(protocol.serve_until_told)
    return {}


def _busy_seconds() -> float:
    """Return the busy time of all cores of the machine."""
    user, nice, kernel, *_ = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return (int(user) + int(nice) + int(kernel)) / 100


def _cpu_of_children() -> float:
    children = Path("/proc/self/task").glob("*/children")
    pids = {int(pid) for path in children for pid in path.read_text().split()}
    return sum(cpu_seconds(pid) for pid in pids)


def _cpu_of_server() -> float:
    """Return the CPU time of the server's processes, including exited ones."""
    with psycopg.connect(postgres.database(), autocommit=True) as connection:
        backend = connection.info.backend_pid
        fields = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()
        postmaster = int(fields[1])
        total = 0.0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has just exited
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[1]) == postmaster:
                    total += (int(fields[11]) + int(fields[12])) / 100
        fields = Path(f"/proc/{postmaster}/stat").read_text().rpartition(")")[2].split()
        return total + sum(int(field) for field in fields[11:15]) / 100


def _on_our_loop(verb: Any) -> protocol.Verb:
    def run(options: argparse.Namespace) -> dict[str, Any]:
        answer: dict[str, Any] = {}

        async def main() -> None:
            answer.update(await verb(options))

        run_process(main())
        return answer

    return run


if __name__ == "__main__":
    assert sys.flags.optimize == 0, "the checks in here are assertions"
    protocol.main(
        {
            "describe": _on_our_loop(describe),
            "enqueue": _on_our_loop(enqueue),
            "drain": _on_our_loop(drain),
            "end-to-end": _on_our_loop(end_to_end),
            "pickup": _on_our_loop(pickup),
            "steps": _on_our_loop(steps),
            "workers": _on_our_loop(workers),
            "work": _on_our_loop(work),
        }
    )
