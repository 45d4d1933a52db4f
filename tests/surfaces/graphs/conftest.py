"""The surface at work: the HTTP application, the engine and a worker, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.cli.server.runtime import new_event_loop
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.http.app import create_http_app
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.graphs.surface import GraphSurface
from coatcheck.worker.processes import confined
from coatcheck.worker.worker import Worker
from tests.http.arrange import connect
from tests.payloads.canary import Ahead


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Graphs:
    """A server with the surface, and what tests ask of it."""

    http: httpx2.AsyncClient
    engine: Engine
    clock: Ahead
    folder: Path

    async def post(
        self,
        path: str = "call",
        content: bytes = b"",
        key: str = "k",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send an archive as it is, or poll."""
        given = {"Idempotency-Key": key, "Content-Type": "application/zip", **(headers or {})}
        return await self.http.post(f"/v1/graphs/{path}", content=content, headers=given)

    async def ended(self, path: str = "call", content: bytes = b"", key: str = "k") -> Any:
        """Hand an archive in, and return the answer once there is one for good."""
        first = await self.post(path, content, key)
        assert first.status_code == 202, first.text
        await self.engine.wait(first.json()["jobId"], 60)
        answer = await self.post(path, b"", key)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.content)

    async def sweep(self) -> None:
        await Sweeper(
            self.engine.store,
            self.clock,
            lease_s=30,
            sweep_s=5,
            payload_store=self.engine.payload_store,
        ).sweep()

    def blobs(self) -> list[Path]:
        return [path for path in (self.folder / "blobs").rglob("*") if path.is_file()]


Serve = Callable[..., AbstractAsyncContextManager[Graphs]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    @contextlib.asynccontextmanager
    async def serving(
        environment: Mapping[str, str] | None = None, *, works: bool = True, processes: int = 1
    ) -> AsyncIterator[Graphs]:
        database = f"sqlite:///{tmp_path}/jobs.db"
        settings = Settings(database=database, processes=processes, drain_s=0)
        app, surface, clock = App(), GraphSurface(environment or {}), Ahead()
        app.use(surface)
        store, blobs = SQLiteStore(tmp_path / "jobs.db"), blobs_for(settings)
        await store.open()
        engine = Engine(store, app.kinds, clock, blobs=blobs, pepper=lambda: b"p" * 32)
        try:
            async with (
                connect(create_http_app(engine, surfaces=[surface])) as http,
                working(engine, settings, tmp_path) if works else contextlib.nullcontext(),
            ):
                yield Graphs(http, engine, clock, tmp_path)
        finally:
            await store.close()
            blobs.close()

    return serving


def import_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have confined processes import from a folder, which they may read, before all others."""
    interpreter_folders = confined.interpreter_folders
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(
        confined, "interpreter_folders", lambda: chain([folder], interpreter_folders())
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that gives no signal when it happens."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is none
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def working(engine: Engine, settings: Settings, folder: Path) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    worker = Worker(engine, settings, new_loop=new_event_loop, scratch=folder / "scratch")
    running = asyncio.create_task(worker.run(stop, ready.set))
    await ready.wait()
    try:
        yield
    finally:
        stop.set()
        await running
