"""Huey on SQLite. Variants: `sqlite3`, the standard library's driver, and `cysqlite`.

Both with `fsync=True`, which Huey's reference calls durable writes (it sets synchronous=FULL), in
the write-ahead log that is Huey's default. FileHuey is left out: it never syncs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cysqlite
from huey import CySqliteHuey, SqliteHuey

from benchmarks.peers import protocol

# Poll interval of idle workers; Huey's default is 100 ms, growing to 10 s.
POLL_S = 0.01
# One worker is fastest for no-op jobs: more only contend for the file's lock.
BEST_WORKERS = 1
UNFINISHED = "SELECT 1 FROM task LIMIT 1"
FINISHED = "SELECT count(*) FROM kv"


class System:
    """A Huey with one task, in a folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        kind = CySqliteHuey if options.variant == "cysqlite" else SqliteHuey
        path = str(Path(options.under) / "huey.db")
        # With a second process there is one more waiter for the lock; none should time out.
        self.huey = kind("bench", filename=path, fsync=True, timeout=60)
        driver = cysqlite if options.variant == "cysqlite" else sqlite3
        self.reader = driver.connect(path, timeout=60)
        self.workers = options.workers or BEST_WORKERS
        self.started: dict[int, float] = {}
        self.called = threading.Event()

        @self.huey.task()
        def job(data: dict[str, int]) -> dict[str, int]:
            return data

        @self.huey.task()
        def stamp(data: dict[str, int]) -> dict[str, int]:
            self.started[data["n"]] = time.monotonic()
            self.called.set()
            return data

        self.job, self.stamp = job, stamp

    def look(self, sql: str) -> list[Any]:
        """Query the database file."""
        return list(self.reader.execute(sql).fetchall())

    def submit(self, number: int) -> None:
        """Submit one job; it is committed when this returns."""
        self.job(protocol.payload(number))

    def close(self) -> None:
        """Close the connection."""
        self.huey.storage.close()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the consumer's threads in this process."""
        consumer = self.huey.create_consumer(
            workers=self.workers,
            worker_type="thread",
            periodic=False,
            initial_delay=POLL_S,
            backoff=1.0,
            max_delay=POLL_S,
            check_worker_health=False,
        )
        consumer.start()
        try:
            yield
        finally:
            consumer.stop(graceful=True)


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from Huey's own connection."""
    system = System(options)
    connection = system.huey.storage.conn
    [journal] = connection.execute("PRAGMA journal_mode").fetchone()
    [synchronous] = connection.execute("PRAGMA synchronous").fetchone()
    [library] = connection.execute("SELECT sqlite_version()").fetchone()
    system.close()
    return {
        "version": importlib.metadata.version("huey"),
        "sqlite": library,
        "journal_mode": journal,
        "synchronous": synchronous,
        "settings": f"{system.workers} worker thread(s), polling every {POLL_S * 1000:.0f} ms",
    }


def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    system = System(options)
    cpu = protocol.cpu_seconds()
    measured = protocol.submit_from_threads(system.submit, options.callers, options.seconds)
    cpu = protocol.cpu_seconds() - cpu
    [[stored]] = system.look("SELECT count(*) FROM task")
    assert stored == measured["jobs"], f"{measured['jobs']} submitted, {stored} stored"
    return protocol.rate(measured, cpu)


def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    system = System(options)
    jobs = protocol.submit_from_threads(system.submit, 1, options.seconds)["jobs"]
    start, cpu = time.monotonic(), protocol.cpu_seconds()
    with system.running():
        end = protocol.wait_until_done(system.look, UNFINISHED, FINISHED, jobs)
        cpu = protocol.cpu_seconds() - cpu
    return protocol.rate({"jobs": jobs, "seconds": end - start}, cpu)


def end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs while workers run."""
    system = System(options)
    separate = options.processes == 2
    with protocol.worker_process(__spec__.name, options) if separate else system.running():
        submitted = protocol.submit_from_threads(system.submit, options.callers, options.seconds)
        end = protocol.wait_until_done(system.look, UNFINISHED, FINISHED, submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    system = System(options)
    latencies = []
    with system.running():
        for number in protocol.idle_gaps(options.count):
            system.called.clear()
            submitted = time.monotonic()
            system.stamp(protocol.payload(number))
            if not system.called.wait(10):
                raise TimeoutError("a job was not picked up within 10 s")
            latencies.append((system.started[number] - submitted) * 1000)
    return {"milliseconds": latencies}


def idle(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the CPU of an idle system."""
    system = System(options)
    with system.running():
        time.sleep(1)
        before = protocol.cpu_seconds()
        time.sleep(options.seconds)
        used = protocol.cpu_seconds() - before
    return {"percent_of_a_core": 100 * used / options.seconds}


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Run the worker process of a two-process run."""
    with System(options).running():
        protocol.serve_until_told()
    return {}


if __name__ == "__main__":
    protocol.main(
        {
            "describe": describe,
            "enqueue": enqueue,
            "drain": drain,
            "end-to-end": end_to_end,
            "pickup": pickup,
            "idle": idle,
            "work": work,
        }
    )
