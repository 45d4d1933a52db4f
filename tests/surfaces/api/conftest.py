"""Surfaces in this process: the HTTP application, the engine and a worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.cli.server.runtime import new_event_loop
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.surfaces.base import Surface
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.http.arrange import connect
from tests.store.template import migrated


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Running(NamedTuple):
    """A server with surfaces."""

    http: httpx2.AsyncClient
    engine: Engine


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serve surfaces from one database, by default with a worker; can be called repeatedly."""

    @contextlib.asynccontextmanager
    async def serving(
        *surfaces: Surface,
        works: bool = True,
        has_worker: bool = False,
        grace_s: float = 10.0,
    ) -> AsyncIterator[Running]:
        settings = Settings(
            database=f"sqlite:///{tmp_path}/jobs.db",
            concurrency=4,
            processes=1,
            drain_s=0,
            grace_s=grace_s,
        )
        app = App()
        for surface in surfaces:
            app.use(surface)
            surface.configure(settings)
        store, blobs = SQLiteStore(migrated(tmp_path / "jobs.db")), blobs_for(settings)
        await store.open()
        engine = Engine(store, app.kinds, blobs=blobs, pepper=lambda: b"p" * 32)
        try:
            async with (
                connect(create_http_app(engine, surfaces=surfaces, has_worker=has_worker)) as http,
                _working(engine, settings) if works else contextlib.nullcontext(),
            ):
                yield Running(http, engine)
        finally:
            for surface in surfaces:
                await surface.close()
            await store.close()
            blobs.close()

    return serving


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
