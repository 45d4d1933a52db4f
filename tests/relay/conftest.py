"""A server on a real port and a worker, both in this process, with surfaces."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
import uvicorn

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.cli.server.runtime import new_event_loop
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.protocol.timeouts import TimeoutProtocol
from coatcheck.http.surfaces.base import Surface
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.store.template import migrated


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Running(NamedTuple):
    """A running server with surfaces."""

    http: httpx2.AsyncClient
    engine: Engine
    url: str
    work: Callable[[], AbstractAsyncContextManager[None]]  # runs a worker for a while


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    @contextlib.asynccontextmanager
    async def serving(*surfaces: Surface, works: bool = True) -> AsyncIterator[Running]:
        settings = Settings(
            database=f"sqlite:///{tmp_path}/jobs.db", concurrency=8, drain_s=0, grace_s=1
        )
        app = App()
        for surface in surfaces:
            surface.configure(settings)
            app.use(surface)
        store, blobs = SQLiteStore(migrated(tmp_path / "jobs.db")), blobs_for(settings)
        await store.open()
        guard = EgressPolicy("127.0.0.1")
        engine = Engine(store, app.kinds, blobs=blobs, egress=guard, pepper=lambda: b"p" * 32)
        try:
            async with (
                _listening(engine, surfaces) as url,
                httpx2.AsyncClient(base_url=url, timeout=60) as http,
                _working(engine, settings) if works else contextlib.nullcontext(),
            ):
                yield Running(http, engine, url, lambda: _working(engine, settings))
        finally:
            await store.close()
            blobs.close()

    return serving


@contextlib.asynccontextmanager
async def _listening(engine: Engine, surfaces: tuple[Surface, ...]) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_http_app(engine, surfaces=surfaces),
        http=TimeoutProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        engine.release_waiters()
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def _working(engine: Engine, settings: Settings) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    worker = Worker(engine, settings, new_loop=new_event_loop)
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    try:
        yield
    finally:
        stop.set()
        await running
