"""Coatcheck behind the benchmark protocol of the peers.

It runs what `coatcheck serve` runs, with the same event loop and settings. With one process,
callers and worker share an event loop, as with `--in-process`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import apsw

from benchmarks import jobs, stepping
from benchmarks.peers import protocol
from coatcheck.cli.server.runtime import new_event_loop, open_engine, run_process
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.settings import Settings
from coatcheck.store.sqlite.database.connection import connect
from coatcheck.worker.worker import Worker

UNFINISHED = (
    "SELECT 1 FROM jobs WHERE tenant = 'default' AND state IN ('queued', 'running') LIMIT 1"
)
FINISHED = "SELECT count(*) FROM jobs WHERE tenant = 'default' AND state = 'succeeded'"


class System:
    """Coatcheck with its database in a folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.path = Path(options.under).absolute() / "coatcheck.db"
        self.isolation = options.isolation
        self.kind = {"async": "job"}.get(self.isolation, f"job_in_{self.isolation}")
        self.stamp = {"async": "stamp"}.get(self.isolation, f"stamp_in_{self.isolation}")
        self.settings = Settings(
            database=f"sqlite:///{self.path}", concurrency=options.workers, log_level="error"
        )

    @contextlib.asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        """Open the store and the engine."""
        async with open_engine(jobs.app, self.settings) as engine:
            if self.isolation != "process":  # no worker processes unless they are measured
                engine.kinds = {
                    name: kind for name, kind in engine.kinds.items() if kind.isolation != "process"
                }
            yield engine

    @contextlib.asynccontextmanager
    async def worker(self, engine: Engine) -> AsyncIterator[None]:
        """Run a worker on this loop."""
        stop, ready = asyncio.Event(), asyncio.Event()
        worker = Worker(engine, self.settings, new_loop=new_event_loop)
        working = asyncio.create_task(worker.run(stop, ready.set))
        await ready.wait()
        try:
            yield
        finally:
            stop.set()
            await working

    async def submit_jobs(self, engine: Engine, callers: int, seconds: float) -> dict[str, Any]:
        """Submit from concurrent callers, each waiting for its commit, until the time is up."""
        numbers = itertools.count()
        start = time.monotonic()
        until = start + seconds

        async def call() -> int:
            count = 0
            while time.monotonic() < until and (number := next(numbers)) < protocol.MOST_JOBS:
                data = json.dumps(protocol.payload(number))
                await engine.submit(Submission(self.kind, data))
                count += 1
            return count

        counts = await asyncio.gather(*(call() for _ in range(callers)))
        return {"started": start, "jobs": sum(counts), "seconds": time.monotonic() - start}

    async def until_done(self, count: int) -> float:
        """Wait for the last result; poll in a thread, because the loop is being measured."""
        return await asyncio.to_thread(self._until_done, count)

    def _until_done(self, count: int) -> float:
        with contextlib.closing(connect(self.path, read_only=True)) as reader:

            def look(sql: str) -> list[Any]:
                return reader.execute(sql).fetchall()

            return protocol.wait_until_done(look, UNFINISHED, FINISHED, count)


async def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    system = System(options)
    async with system.engine() as engine:
        cpu = protocol.cpu_seconds()
        measured = await system.submit_jobs(engine, options.callers, options.seconds)
        cpu = protocol.cpu_seconds() - cpu
        [status] = await engine.queues()
        assert status.ready == measured["jobs"], f"{measured['jobs']} in, {status.ready} stored"
    return protocol.rate(measured, cpu)


async def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    system = System(options)
    async with system.engine() as engine:
        count = (await system.submit_jobs(engine, 64, options.seconds))["jobs"]
        start, cpu = time.monotonic(), protocol.cpu_seconds()
        async with system.worker(engine):
            end = await system.until_done(count)
            cpu = protocol.cpu_seconds() - cpu
    return protocol.rate({"jobs": count, "seconds": end - start}, cpu)


async def drain_warm(options: argparse.Namespace) -> dict[str, Any]:
    """Drain jobs with a warm worker; include the CPU of its processes."""
    system = System(options)
    async with system.engine() as engine, system.worker(engine):
        warm = 8
        for number in range(warm):
            job = await engine.submit(Submission(system.kind, json.dumps({"n": number})))
            await engine.wait(job.id, 30)
        await engine.pause_queue("default")
        count = (await system.submit_jobs(engine, 64, options.seconds))["jobs"]
        start, cpu = time.monotonic(), protocol.cpu_seconds() + _cpu_of_children()
        await engine.resume_queue("default")
        end = await system.until_done(count + warm)
        cpu = protocol.cpu_seconds() + _cpu_of_children() - cpu
    return protocol.rate({"jobs": count, "seconds": end - start}, cpu)


def _cpu_of_children() -> float:
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs while a worker runs."""
    system = System(options)
    async with system.engine() as engine, contextlib.AsyncExitStack() as stack:
        if options.processes == 2:
            stack.enter_context(protocol.worker_process(__spec__.name, options))
        else:
            await stack.enter_async_context(system.worker(engine))
        submitted = await system.submit_jobs(engine, options.callers, options.seconds)
        end = await system.until_done(submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


async def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    system = System(options)
    latencies = []
    async with system.engine() as engine, system.worker(engine):
        gaps = protocol.idle_gaps(options.count)
        while (number := await asyncio.to_thread(next, gaps, None)) is not None:
            jobs.called.clear()
            submitted = time.monotonic()
            await engine.submit(Submission("stamp", json.dumps(protocol.payload(number))))
            if not await asyncio.to_thread(jobs.called.wait, 10):
                raise TimeoutError("a job was not picked up within 10 s")
            latencies.append((jobs.started[number] - submitted) * 1000)
    return {"milliseconds": latencies}


async def pickup_inside(options: argparse.Namespace) -> dict[str, Any]:
    """Time pickup by the handler's result, so that it may run in any process."""
    system = System(options)
    latencies = []
    async with system.engine() as engine, system.worker(engine):
        gaps = protocol.idle_gaps(options.count)
        while (number := await asyncio.to_thread(next, gaps, None)) is not None:
            submitted = time.monotonic()
            asked = Submission(system.stamp, json.dumps(protocol.payload(number)))
            job = await engine.wait((await engine.submit(asked)).id, 10)
            latencies.append((json.loads(job.result or "null") - submitted) * 1000)
    return {"milliseconds": latencies}


async def idle(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the CPU of an idle system."""
    system = System(options)
    async with system.engine() as engine, system.worker(engine):
        await asyncio.sleep(1)
        before = protocol.cpu_seconds()
        await asyncio.sleep(options.seconds)
        used = protocol.cpu_seconds() - before
    return {"percent_of_a_core": 100 * used / options.seconds}


async def steps(options: argparse.Namespace) -> dict[str, Any]:
    """Run `count` steps in each of `callers` concurrent jobs."""
    system = System(options)
    async with system.engine() as engine, system.worker(engine):
        return await stepping.take(engine, options)


async def resume(options: argparse.Namespace) -> dict[str, Any]:
    """Time the replay of a waiting job with `count` recorded steps until it finishes."""
    system = System(options)
    async with system.engine() as engine, system.worker(engine):
        job = await engine.submit(Submission("steps_then_wait", json.dumps({"n": options.count})))
        while job.state != "waiting":
            job = await engine.wait_for_event(job, job.last_event, 30) or job
        start = time.monotonic()
        await engine.store.jobs.send_event(job.tenant, job.id, "go", "null", engine.clock.now())
        job = await engine.wait(job.id, 60)
        assert job.state == "succeeded", job.error
    return {"milliseconds": (time.monotonic() - start) * 1000}


async def fan_out(options: argparse.Namespace) -> dict[str, Any]:
    """Spawn `count` jobs from one, run them, and gather their results."""
    system = System(options)
    async with system.engine() as engine, system.worker(engine):
        start, cpu = time.monotonic(), protocol.cpu_seconds()
        job = await engine.submit(Submission("fan_out", json.dumps({"n": options.count})))
        job = await engine.wait(job.id, protocol.PATIENCE_S)
        seconds, cpu = time.monotonic() - start, protocol.cpu_seconds() - cpu
        assert job.result == str(options.count), f"{job.state}: {job.error}"
    return protocol.rate({"jobs": options.count, "seconds": seconds}, cpu)


async def work(options: argparse.Namespace) -> dict[str, Any]:
    """Run the worker process of a two-process run."""
    system = System(options)
    async with system.engine() as engine, system.worker(engine):
        await asyncio.to_thread(protocol.serve_until_told)
    return {}


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from a connection like the writer's."""
    system = System(options)
    with contextlib.closing(connect(system.path)) as connection:
        journal = connection.execute("PRAGMA journal_mode").get
        synchronous = connection.execute("PRAGMA synchronous").get
    return {
        "version": importlib.metadata.version("coatcheck"),
        "sqlite": apsw.sqlite_lib_version(),
        "journal_mode": journal,
        "synchronous": synchronous,
        "settings": f"{system.settings.slots} slots, woken by submits",
    }


def _on_our_loop(verb: Any) -> protocol.Verb:
    def run(options: argparse.Namespace) -> dict[str, Any]:
        answer: dict[str, Any] = {}

        async def main() -> None:
            answer.update(await verb(options))

        main_coroutine: Coroutine[Any, Any, None] = main()
        run_process(main_coroutine)
        return answer

    return run


if __name__ == "__main__":
    assert sys.flags.optimize == 0, "the checks in here are assertions"
    protocol.main(
        {
            "describe": describe,
            "enqueue": _on_our_loop(enqueue),
            "drain": _on_our_loop(drain),
            "drain-warm": _on_our_loop(drain_warm),
            "end-to-end": _on_our_loop(end_to_end),
            "pickup": _on_our_loop(pickup),
            "pickup-inside": _on_our_loop(pickup_inside),
            "idle": _on_our_loop(idle),
            "steps": _on_our_loop(steps),
            "resume": _on_our_loop(resume),
            "fan-out": _on_our_loop(fan_out),
            "work": _on_our_loop(work),
        }
    )
