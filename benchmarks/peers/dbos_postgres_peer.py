"""DBOS on PostgreSQL, jobs through a queue. Its workflows keep their input and their result."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import threading
import time
from collections.abc import Iterator
from typing import Any

from dbos import DBOS, DBOSConfig
from dbos._dbos import _get_dbos_instance

from benchmarks.peers import dbos_steps, postgres, protocol

QUEUE = "jobs"
# Poll interval of an idle worker; DBOS's default is 1 s.
POLL_S = 0.01
BEST_WORKERS = 64
# DBOS picks up a new queue with its next poll, once per second.
SETTLE_S = 2.0
UNFINISHED = "SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING') LIMIT 1"
FINISHED = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"

ran = 0
counting = threading.Lock()
started: dict[int, float] = {}
called = threading.Event()


@DBOS.workflow()
def job(data: dict[str, int]) -> dict[str, int]:
    """Do nothing and return the input."""
    global ran  # noqa: PLW0603 - one counter for the threads of the workflows
    with counting:
        ran += 1
    return data


@DBOS.workflow()
def stamp(data: dict[str, int]) -> dict[str, int]:
    """Record the start time of the handler."""
    started[data["n"]] = time.monotonic()
    called.set()
    return data


@contextlib.contextmanager
def launched(options: argparse.Namespace, *, working: bool) -> Iterator[None]:
    """Launch DBOS in this process, as a worker or only to submit."""
    DBOS(
        config=DBOSConfig(
            name="bench",
            system_database_url=postgres.database(),
            log_level="ERROR",
            application_version="bench",
        )
    )
    DBOS.listen_queues([QUEUE] if working else [])
    DBOS.launch()
    DBOS.register_queue(
        QUEUE, worker_concurrency=options.workers or BEST_WORKERS, polling_interval_sec=POLL_S
    )
    try:
        yield
    finally:
        DBOS.destroy()


def submit(number: int) -> None:
    """Submit one job; it is committed when this returns."""
    DBOS.enqueue_workflow(QUEUE, job, protocol.payload(number))


def until_done(jobs: int) -> float:
    """Wait for the last result."""
    return postgres.until_done(UNFINISHED, FINISHED, jobs, lambda: ran)


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Describe the system, with settings read back from DBOS's own connection."""
    with launched(options, working=False):
        engine = _get_dbos_instance()._sys_db.engine  # there is no public API for this
        with engine.connect() as connection:
            rows = connection.exec_driver_sql(postgres.settings_query()).fetchall()
    concurrency = options.workers or BEST_WORKERS
    return {
        "version": importlib.metadata.version("dbos"),
        **postgres.settings_of([tuple(row) for row in rows]),
        "settings": f"worker concurrency {concurrency}, polling every {POLL_S * 1000:.0f} ms",
    }


def enqueue(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs without a worker."""
    with launched(options, working=False):
        measured = protocol.submit_from_threads(submit, options.callers, options.seconds)
    stored = postgres.look_once("SELECT count(*) FROM dbos.workflow_status")
    assert stored == measured["jobs"], f"{measured['jobs']} submitted, {stored} stored"
    return protocol.rate(measured)


def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs, then time the workers until all are done."""
    with launched(options, working=False):
        jobs = protocol.submit_from_threads(submit, 1, options.seconds)["jobs"]
    with launched(options, working=True):
        start, cpu = time.monotonic(), protocol.cpu_seconds()
        end = until_done(jobs)
        cpu = protocol.cpu_seconds() - cpu
    return protocol.rate({"jobs": jobs, "seconds": end - start}, cpu)


def end_to_end(options: argparse.Namespace) -> dict[str, Any]:
    """Submit jobs while workers run."""
    with launched(options, working=True):
        time.sleep(SETTLE_S)
        submitted = protocol.submit_from_threads(submit, options.callers, options.seconds)
        end = until_done(submitted["jobs"])
    return protocol.rate({"jobs": submitted["jobs"], "seconds": end - submitted["started"]})


def pickup(options: argparse.Namespace) -> dict[str, Any]:
    """Time how long a job waits for an idle worker."""
    latencies = []
    with launched(options, working=True):
        time.sleep(SETTLE_S)
        for number in protocol.idle_gaps(options.count):
            called.clear()
            submitted = time.monotonic()
            DBOS.enqueue_workflow(QUEUE, stamp, protocol.payload(number))
            if not called.wait(10):
                raise TimeoutError("a job was not picked up within 10 s")
            latencies.append((started[number] - submitted) * 1000)
    return {"milliseconds": latencies}


def steps(options: argparse.Namespace) -> dict[str, Any]:
    """Run `count` steps in each of `callers` concurrent workflows."""
    with launched(options, working=True):
        time.sleep(SETTLE_S)
        taken = dbos_steps.take(options)
    dbos_steps.check(postgres.look_once("SELECT count(*) FROM dbos.operation_outputs"), options)
    return taken


if __name__ == "__main__":
    protocol.main(
        {
            "describe": describe,
            "enqueue": enqueue,
            "drain": drain,
            "end-to-end": end_to_end,
            "pickup": pickup,
            "steps": steps,
        }
    )
