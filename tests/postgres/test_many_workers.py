"""Eight worker processes and two that submit, all on one database."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import asyncpg
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.checker import Run, Submit, check, read_records
from tests.store.another_process import ROOT, AnotherProcess

from .crowd_app import QUEUES, TENANTS, app
from .working import PATIENCE_S

pytestmark = pytest.mark.anyio

WORKERS = 8
SUBMITTERS = 2
JOBS_EACH = 1_000


@contextmanager
def worker(folder: Path, schema: str, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `coatcheck worker` until the block ends, then let it drain."""
    environment = {
        **os.environ,
        "CROWD_STARTS": str(folder / "starts"),
        "COATCHECK_DATABASE": f"file:{folder / 'dsn'}",
        "COATCHECK_PROFILE": "production",
        "COATCHECK_SCHEMA": schema,
        "COATCHECK_CONCURRENCY": "8",
        "COATCHECK_CONNECTIONS": "4",
        "COATCHECK_LOG_LEVEL": "warning",
    }
    with (folder / f"worker-{number}").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "coatcheck", "worker", "tests.postgres.crowd_app:app"],
            env=environment,
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()


async def deadlocks(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        query = "SELECT sum(deadlocks) FROM pg_stat_database"
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


async def all_registered(store: PostgresStore) -> None:
    """Wait until every worker is known; the store tells nobody of that."""
    async with asyncio.timeout(PATIENCE_S):
        while len(await store.workers()) < WORKERS:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)


async def test_a_crowd_of_processes_does_every_job_once_and_starves_nobody(
    store: PostgresStore, dsn: str, schema: str, tmp_path: Path
) -> None:
    (tmp_path / "dsn").write_text(dsn)
    deadlocks_before = await deadlocks(dsn)
    with ExitStack() as stack:
        pids = {
            stack.enter_context(worker(tmp_path, schema, number)).pid for number in range(WORKERS)
        }
        submitters = [
            stack.enter_context(
                AnotherProcess(tmp_path, schema, n, JOBS_EACH, module="tests.postgres.crowd_app")
            )
            for n in range(SUBMITTERS)
        ]
        for submitter in submitters:
            assert await asyncio.to_thread(submitter.says) == "ready"
        await all_registered(store)
        for submitter in submitters:
            submitter.tell()
        for submitter in submitters:
            assert await asyncio.to_thread(submitter.finish) == ""
        engine = Engine(store, app.kinds)
        jobs = [
            await engine.wait(job.id, PATIENCE_S, tenant)
            for tenant in TENANTS
            for job in await store.list_jobs(JobFilter(tenant, limit=1_000_000))
        ]

    assert len(jobs) == SUBMITTERS * JOBS_EACH
    assert Counter(job.state for job in jobs) == {State.SUCCEEDED: len(jobs)}
    assert {job.queue for job in jobs} == set(QUEUES)
    lines = (tmp_path / "starts").read_text().splitlines()
    starts = Counter(tuple(line.split()[:2]) for line in lines)
    assert set(starts.values()) == {1}, "an attempt was started twice"
    expected = {
        (job.id, str(attempt))
        for job in jobs
        for attempt in ((1, 2) if job.kind == "second_try" else (1,))
    }
    assert set(starts) == expected

    by_worker = Counter(int(line.split()[2]) for line in lines)
    assert set(by_worker) == pids
    assert min(by_worker.values()) >= 5, f"one was starved: {by_worker}"
    assert await deadlocks(dsn) == deadlocks_before
    assert (await store.counters()).get("stale_writes", 0) == 0
    assert await store.workers() == []
    for number in range(WORKERS):
        assert (tmp_path / f"worker-{number}").read_text() == ""  # nobody had to complain
    for job in itertools.islice(jobs, 0, None, 7):
        assert job.result is not None
        assert json.loads(job.result) % 2 == 0
    submits = [Submit(job.id, tenant=job.tenant) for job in jobs]
    check(Run(submits, await read_records(store, submits)))
