"""A real engine on a real file, and workers that run on the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.slots.prefetch import Prefetch
from coatcheck.worker.worker import Worker
from tests.store.template import migrated

from .rendezvous import Rendezvous

SETTINGS = Settings(concurrency=8, lease_s=30, drain_s=5, grace_s=5)

Working = Callable[..., contextlib.AbstractAsyncContextManager[Worker]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = SQLiteStore(migrated(tmp_path / "jobs.db"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def engine(app: App, store: Store) -> Engine:
    return Engine(store, app.kinds)


@pytest.fixture
async def rendezvous() -> AsyncIterator[Rendezvous]:
    rendezvous = Rendezvous()
    await rendezvous.open()
    yield rendezvous
    await rendezvous.close()


@contextlib.asynccontextmanager
async def working(
    engine: Engine, settings: Settings = SETTINGS, prefetch: Prefetch | None = None
) -> AsyncIterator[Worker]:
    """Run a worker within the block, then drain it."""
    worker = Worker(engine, settings, prefetch=prefetch)
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(worker.run(stop, ready.set))
    try:
        await asyncio.wait(
            [running, asyncio.create_task(ready.wait())], return_when="FIRST_COMPLETED"
        )
        yield worker
    finally:
        stop.set()
        await running
