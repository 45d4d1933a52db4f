"""The built-in surfaces on PostgreSQL: they know nothing of the store, and this shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.settings import Settings
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.surfaces.render.surface import RenderSurface
from coatcheck.surfaces.tasks.surface import TaskSurface
from coatcheck.worker.worker import Worker
from tests.http.arrange import connect

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http(store: PostgresStore, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    surfaces = [RenderSurface({}), TaskSurface({})]
    app = App()
    for surface in surfaces:
        app.use(surface)
    settings = Settings(blobs=f"file://{tmp_path}/blobs", concurrency=4, processes=1, drain_s=0)
    engine = Engine(store, app.kinds, blobs=blobs_for(settings))
    stop, ready = asyncio.Event(), asyncio.Event()
    working = asyncio.create_task(Worker(engine, settings).run(stop, ready.set))
    await ready.wait()
    async with connect(create_http_app(engine, surfaces=surfaces)) as client:
        yield client
    stop.set()
    await working


async def test_a_diagram_is_drawn_and_remembered(http: httpx2.AsyncClient) -> None:
    body = {"source": "graph TD; A-->B;", "format": "mermaid"}
    first = await http.post("/render?mode=sync", json=body)
    assert first.status_code == 200, first.text
    again = await http.post("/render?mode=sync", json=body)
    assert again.json() == {**first.json(), "cached": True}
    assert (await http.get(first.json()["url"])).text.startswith("<svg")


async def test_a_task_is_kept_and_run(http: httpx2.AsyncClient) -> None:
    task = {"id": "t", "name": "Say hello", "command": "echo hello"}
    assert (await http.put("/api/tasks", json=task)).status_code == 201
    ran = (await http.put("/api/tasks/t/executions")).json()
    assert (ran["exitCode"], ran["stdout"]) == (0, "hello\n")
    assert len((await http.get("/api/tasks/search?name=hello")).json()) == 1
