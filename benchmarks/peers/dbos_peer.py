"""DBOS on SQLite. Variants: `shipped`, as DBOS opens the file, `wal` and `wal-direct`.

DBOS sets no journal mode, so `shipped` is SQLite's rollback journal with synchronous=FULL: durable,
with several syncs a commit. `wal` switches the file to the write-ahead log before DBOS opens it
(the mode is a property of the file), synchronous stays FULL: also durable, one sync a commit.
`wal-direct` is that, with jobs started by `DBOS.start_workflow` instead of through a queue: durable
from the same call on, run at once by the submitting process alone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig
from dbos._dbos import _get_dbos_instance

from benchmarks.peers import dbos_steps, protocol

QUEUE = "jobs"
# Poll interval of an idle worker; DBOS's default is 1 s.
POLL_S = 0.01
# The drain gets faster up to 64, not beyond.
BEST_WORKERS = 64
# DBOS picks up a new queue with its next poll, once per second.
SETTLE_S = 2.0
UNFINISHED = "SELECT 1 FROM workflow_status WHERE status IN ('ENQUEUED', 'PENDING') LIMIT 1"
FINISHED = "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"

started: dict[int, float] = {}
called = threading.Event()


@DBOS.workflow()
def job(data: dict[str, int]) -> dict[str, int]:
    """Do nothing and return the input."""
    return data


@DBOS.workflow()
def stamp(data: dict[str, int]) -> dict[str, int]:
    """Record the start time of the handler."""
    started[data["n"]] = time.monotonic()
    called.set()
    return data


class System:
    """A DBOS application on a file, with or without a queue listener."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.path = Path(options.under) / "dbos.sqlite"
        self.direct = options.variant.endswith("-direct")
        self.workers = options.workers or BEST_WORKERS
        with sqlite3.connect(self.path) as connection:
            if options.variant.startswith("wal"):
                connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        self.reader = sqlite3.connect(self.path, timeout=60, isolation_level=None)

    @contextlib.contextmanager
    def launched(self, *, working: bool) -> Iterator[None]:
        """Launch DBOS in this process, as a worker or only to submit."""
        url = f"sqlite:///{self.path}"
        # Workers only take jobs of their version: the same in both processes of a run.
        DBOS(
            config=DBOSConfig(
                name="bench",
                system_database_url=url,
                log_level="ERROR",
                application_version="bench",
            )
        )
        DBOS.listen_queues([QUEUE] if working else [])
        DBOS.launch()
        DBOS.register_queue(QUEUE, worker_concurrency=self.workers, polling_interval_sec=POLL_S)
        try:
            yield
        finally:
            DBOS.destroy()

    def submit(self, number: int) -> None:
        """Submit one job; it is committed when this returns."""
        self.start(job, number)

    def start(self, workflow: Callable[..., Any], number: int) -> None:
        """Start a workflow, through the queue or directly."""
        if self.direct:
            DBOS.start_workflow(workflow, protocol.payload(number))
        else:
            DBOS.enqueue_workflow(QUEUE, workflow, protocol.payload(number))

    def look(self, sql: str) -> list[Any]:
        """Query the database file."""
        return self.reader.execute(sql).fetchall()


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from DBOS's own connection."""
    system = System(options)
    with system.launched(working=False):
        engine = _get_dbos_instance()._sys_db.engine  # there is no public API for this
        with engine.connect() as connection:
            journal = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    return {
        "version": importlib.metadata.version("dbos"),
        "sqlite": sqlite3.sqlite_version,
        "journal_mode": journal,
        "synchronous": synchronous,
        "settings": "run at once by the process that hands it in"
        if system.direct
        else f"worker concurrency {system.workers}, polling every {POLL_S * 1000:.0f} ms",
    }


def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    system = System(options)
    with system.launched(working=False):
        cpu = protocol.cpu_seconds()
        measured = protocol.submit_from_threads(system.submit, options.callers, options.seconds)
        cpu = protocol.cpu_seconds() - cpu
    [[stored]] = system.look("SELECT count(*) FROM workflow_status")
    assert stored == measured["jobs"], f"{measured['jobs']} submitted, {stored} stored"
    return protocol.rate(measured, cpu)


def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    system = System(options)
    with system.launched(working=False):
        jobs = protocol.submit_from_threads(system.submit, 1, options.seconds)["jobs"]
    with system.launched(working=True):
        start, cpu = time.monotonic(), protocol.cpu_seconds()
        end = protocol.wait_until_done(system.look, UNFINISHED, FINISHED, jobs)
        cpu = protocol.cpu_seconds() - cpu
    return protocol.rate({"jobs": jobs, "seconds": end - start}, cpu)


def end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs while workers run."""
    system = System(options)
    separate = options.processes == 2
    with contextlib.ExitStack() as stack:
        stack.enter_context(system.launched(working=not separate))
        if separate:
            stack.enter_context(protocol.worker_process(__spec__.name, options))
        time.sleep(SETTLE_S)
        submitted = protocol.submit_from_threads(system.submit, options.callers, options.seconds)
        end = protocol.wait_until_done(system.look, UNFINISHED, FINISHED, submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    system = System(options)
    latencies = []
    with system.launched(working=True):
        time.sleep(SETTLE_S)
        for number in protocol.idle_gaps(options.count):
            called.clear()
            submitted = time.monotonic()
            system.start(stamp, number)
            if not called.wait(10):
                raise TimeoutError("a job was not picked up within 10 s")
            latencies.append((started[number] - submitted) * 1000)
    return {"milliseconds": latencies}


def idle(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the CPU of an idle system."""
    system = System(options)
    with system.launched(working=True):
        time.sleep(SETTLE_S)
        before = protocol.cpu_seconds()
        time.sleep(options.seconds)
        used = protocol.cpu_seconds() - before
    return {"percent_of_a_core": 100 * used / options.seconds}


def steps(options: argparse.Namespace) -> dict[str, Any]:
    """Run `count` steps in each of `callers` concurrent workflows."""
    system = System(options)
    with system.launched(working=True):
        time.sleep(SETTLE_S)
        taken = dbos_steps.take(options)
    [[stored]] = system.look("SELECT count(*) FROM operation_outputs")
    dbos_steps.check(stored, options)
    return taken


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Run the worker process of a two-process run."""
    with System(options).launched(working=True):
        time.sleep(SETTLE_S)
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
            "steps": steps,
            "work": work,
        }
    )
