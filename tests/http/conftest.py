from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.logs import JsonFormatter
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.http.arrange import LogLines, StoppedClock, StoredJobs, Submit, connect, worker_info
from tests.http.kinds import Gate, declare_kinds
from tests.store.template import migrated


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(migrated(tmp_path / "jobs.db"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, clock)


@pytest.fixture
def app(engine: Engine) -> Starlette:
    return create_http_app(engine)


@pytest.fixture
async def http(app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(app) as client:
        yield client


@pytest.fixture
async def worker(engine: Engine, gate: Gate) -> AsyncIterator[Worker]:
    """A worker that runs what is submitted, for as long as the test does."""
    worker = Worker(engine, Settings(concurrency=4, drain_s=0))
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    yield worker
    gate.open()
    stop.set()
    await running


@pytest.fixture
async def claimer(engine: Engine) -> str:
    """The id of a worker that the test claims with, by hand."""
    await engine.store.workers.register_worker(worker_info("claimer"))
    return "claimer"


@pytest.fixture
def submit(http: httpx2.AsyncClient) -> Submit:
    """Submit a job and return it as it was answered."""

    async def submit(kind: str, value: Any = None, **fields: Any) -> dict[str, Any]:
        answer = await http.post("/v1/jobs", json={"kind": kind, "input": value, **fields})
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    return submit


@pytest.fixture
def run(http: httpx2.AsyncClient, worker: Worker, submit: Submit) -> Submit:
    """Submit a job, wait for its end and return it."""

    async def run(kind: str, value: Any = None, **fields: Any) -> dict[str, Any]:
        job = await submit(kind, value, **fields)
        return dict((await http.get(f"/v1/jobs/{job['id']}?wait=60")).json())

    return run


@pytest.fixture
def stored_jobs(engine: Engine) -> StoredJobs:
    """Read every job there is, past the HTTP layer."""

    async def stored_jobs() -> list[Job]:
        return await engine.list_jobs(JobFilter(DEFAULT_TENANT, limit=1000))

    return stored_jobs


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """What Coatcheck logs during a test, as the JSON objects that an operator would read."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("coatcheck")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    logger.setLevel(level)
    logger.removeHandler(handler)
