from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.mcp.surface import McpSurface
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.mcp.kinds import Gate, declare_kinds
from tests.store.template import migrated

PEPPER = b"a pepper for tests"
# As good as for ever: what is waited for comes.
LONG_S = 60.0

Serving = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(migrated(tmp_path / "jobs.db"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def engine(store: Store, gate: Gate) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, pepper=lambda: PEPPER)


@pytest.fixture
async def worker(engine: Engine, gate: Gate) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    settings = Settings(concurrency=4, drain_s=0)
    running = asyncio.create_task(Worker(engine, settings).run(stop, ready.set))
    await ready.wait()
    yield
    gate.opened.set()
    stop.set()
    await running


@pytest.fixture
def serving(store: Store, gate: Gate) -> Serving:
    """Serve an engine on a port; without one, a further replica on the same store."""

    @asynccontextmanager
    async def serving(engine: Engine | None = None, wait_s: float = LONG_S) -> AsyncIterator[str]:
        if engine is None:
            engine = Engine(store, declare_kinds(gate).kinds, pepper=lambda: PEPPER)
        surface = McpSurface()
        surface.configure(Settings(mcp_wait_s=wait_s))
        app = create_http_app(engine, surfaces=[surface])
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = _Server(uvicorn.Config(app, lifespan="off", log_config=None))
            running = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                engine.release_waiters()
                server.should_exit = True
                await running

    return serving


@pytest.fixture
async def url(engine: Engine, worker: None, serving: Serving) -> AsyncIterator[str]:
    """A server with a worker, whose calls wait for their jobs."""
    async with serving(engine) as url:
        yield url


@pytest.fixture
async def impatient(engine: Engine, worker: None, serving: Serving) -> AsyncIterator[str]:
    """The same, whose calls wait for nothing."""
    async with serving(engine, wait_s=0) as url:
        yield url


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield
