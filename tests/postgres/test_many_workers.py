"""Eight worker processes and two that serve HTTP, all on one database."""

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
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import asyncpg
import pytest

from coatcheck import AsyncClient, NewJob
from coatcheck.engine.engine import Engine
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.checker import RunRecord, Submit, check, read_records
from tests.cli.processes import run_to_end, running
from tests.store.another_process import ROOT

from .crowd_app import QUEUES, TENANTS, app, jobs_for, pids_in
from .working import PATIENCE_S

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]

WORKERS = 8
SLOTS = 8
SERVERS = 2
JOBS_EACH = 333  # of each tenant at each server
AT_ONCE = 32
APP = "tests.postgres.crowd_app:app"


def settings(folder: Path, schema: str) -> dict[str, str]:
    """Return the settings that all processes have."""
    return {
        "CROWD_STARTS": str(folder / "starts"),
        "COATCHECK_DATABASE": f"file:{folder / 'dsn'}",
        "COATCHECK_PEPPER": f"file:{folder / 'pepper'}",
        "COATCHECK_PROFILE": "production",
        "COATCHECK_SCHEMA": schema,
        "COATCHECK_CONCURRENCY": str(SLOTS),
        "COATCHECK_CONNECTIONS": "4",
        "COATCHECK_LOG_LEVEL": "warning",
        "COATCHECK_DRAIN_S": "30",
    }


@contextmanager
def worker(folder: Path, schema: str, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `coatcheck worker` until the block ends, then let it drain."""
    with (folder / f"worker-{number}").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "coatcheck", "worker", APP],
            env={**os.environ, **settings(folder, schema)},
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


def keys_for_all(folder: Path, schema: str) -> dict[str, str]:
    """Make a key for each tenant."""
    keys = {}
    for tenant in TENANTS:
        asked = ("keys", "create", "--tenant", tenant, "--json")
        made = run_to_end(*asked, folder=folder, **settings(folder, schema))
        assert made.returncode == 0, made.stderr
        keys[tenant] = json.loads(made.stdout)["key"]
    return keys


async def submit_over_http(url: str, keys: dict[str, str]) -> None:
    """Hand in what all tenants want of one API, in every way there is."""
    async with AsyncExitStack() as stack:
        clients = {
            tenant: await stack.enter_async_context(AsyncClient(url, api_key=key))
            for tenant, key in keys.items()
        }
        # As many as there are slots for in all, half of them here: who is left out is seen.
        meeting = [NewJob("meets", WORKERS)] * (WORKERS * SLOTS // SERVERS)
        await clients["default"].submit_batch(meeting)
        await asyncio.gather(
            *(_submit(client, jobs_for(tenant, JOBS_EACH)) for tenant, client in clients.items())
        )


async def _submit(client: AsyncClient, jobs: list[NewJob]) -> None:
    single, together = jobs[: len(jobs) // 3], jobs[len(jobs) // 3 :]
    for first in range(0, len(single), AT_ONCE):
        asked = single[first : first + AT_ONCE]
        await asyncio.gather(
            *(
                client.submit(each.kind, each.input, queue=each.queue, priority=each.priority)
                for each in asked
            )
        )
    for first in range(0, len(together), 100):
        await client.submit_batch(together[first : first + 100])


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
        while len(await store.workers.list_workers()) < WORKERS:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)


async def test_a_crowd_of_processes_does_every_job_once_and_starves_nobody(
    store: PostgresStore, dsn: str, schema: str, tmp_path: Path
) -> None:
    (tmp_path / "dsn").write_text(dsn)
    (tmp_path / "pepper").write_text("a pepper of sixteen characters or more")
    deadlocks_before = await deadlocks(dsn)
    keys = await asyncio.to_thread(keys_for_all, tmp_path, schema)
    with ExitStack() as stack:
        pids = {
            stack.enter_context(worker(tmp_path, schema, number)).pid for number in range(WORKERS)
        }
        serve = ("serve", APP, "--no-worker", "--port", "0")
        servers = [
            stack.enter_context(running(*serve, folder=ROOT, **settings(tmp_path, schema)))
            for _ in range(SERVERS)
        ]
        urls = [await asyncio.to_thread(server.url) for server in servers]
        await all_registered(store)
        await asyncio.gather(*(submit_over_http(url, keys) for url in urls))
        engine = Engine(store, app.kinds)
        jobs = [
            await engine.wait(job.id, PATIENCE_S, tenant)
            for tenant in TENANTS
            for job in await store.jobs.list_jobs(JobFilter(tenant, limit=1_000_000))
        ]

    meetings = WORKERS * SLOTS
    assert len(jobs) == SERVERS * len(TENANTS) * JOBS_EACH + meetings
    assert Counter(job.state for job in jobs) == {State.SUCCEEDED: len(jobs)}
    assert {job.queue for job in jobs} == {"default", *QUEUES}
    lines = (tmp_path / "starts").read_text().splitlines()
    starts = Counter(tuple(line.split()[:2]) for line in lines)
    assert set(starts.values()) == {1}, "an attempt was started twice"
    expected = {
        (job.id, str(attempt))
        for job in jobs
        for attempt in ((1, 2) if job.kind == "second_try" else (1,))
    }
    assert set(starts) == expected

    assert pids_in(tmp_path / "starts") == pids, "nobody was left without"
    assert await deadlocks(dsn) == deadlocks_before
    assert (await store.maintenance.read_counters()).get("stale_writes", 0) == 0
    assert await store.workers.list_workers() == []
    for number in range(WORKERS):
        assert (tmp_path / f"worker-{number}").read_text() == ""  # nobody had to complain
    for job in itertools.islice(jobs, 0, None, 7):
        assert job.result is not None
        assert json.loads(job.result) % 2 == 0
    submits = [Submit(job.id, tenant=job.tenant) for job in jobs]
    check(RunRecord(submits, await read_records(store, submits)))
