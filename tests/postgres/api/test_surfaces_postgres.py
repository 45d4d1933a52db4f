"""The built-in surfaces on PostgreSQL: they know nothing of the store, and this shows it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.surfaces.base import Surface
from coatcheck.settings import Settings
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from coatcheck.surfaces.render.surface import RenderSurface
from coatcheck.surfaces.tasks.surface import TaskSurface
from coatcheck.worker.worker import Worker
from tests.http.arrange import connect
from tests.relay.upstreams import Service, says, service
from tests.surfaces.foreman.faulty import Faulty, answering, faulty
from tests.webhooks.receiver import Call, receiving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def up() -> AsyncIterator[Service]:
    async with service(says("201 Created", b"made", "Set-Cookie: a=1")) as running:
        yield running


@pytest.fixture
async def model() -> AsyncIterator[Faulty]:
    said = {"model": "tiny", "message": {"role": "assistant", "content": "hi"}, "done": True}
    async with faulty(lambda _: answering(200, json.dumps(said).encode())) as running:
        yield running


@pytest.fixture
async def http(
    store: PostgresStore, tmp_path: Path, up: Service, model: Faulty
) -> AsyncIterator[httpx2.AsyncClient]:
    rules = read_rules([{"match": "POST /reports/*", "target": up.url}])
    foreman = ForemanSurface({"FOREMAN_OLLAMA_URL": model.url})
    surfaces: list[Surface] = [RenderSurface({}), TaskSurface({}), ProxySurface(rules), foreman]
    settings = Settings(
        database="postgresql://nowhere/jobs",
        pepper="p" * 32,
        blobs=f"file://{tmp_path}/blobs",
        concurrency=4,
        processes=1,
        drain_s=0,
    )
    app = App()
    for surface in surfaces:
        surface.configure(settings)
        app.use(surface)
    engine = Engine(store, app.kinds, blobs=blobs_for(settings), egress=EgressPolicy("127.0.0.1"))
    stop, ready = asyncio.Event(), asyncio.Event()
    working = asyncio.create_task(Worker(engine, settings).run(stop, ready.set))
    await ready.wait()
    delivering = asyncio.create_task(engine.dispatcher.run())
    async with connect(create_http_app(engine, surfaces=surfaces)) as client:
        yield client
    stop.set()
    await working
    delivering.cancel()
    await asyncio.gather(delivering, return_exceptions=True)


async def test_a_diagram_is_drawn_and_remembered(http: httpx2.AsyncClient) -> None:
    body = {"source": "graph TD; A-->B;", "format": "mermaid"}
    first = await http.post("/render?mode=sync", json=body)
    assert first.status_code == 200, first.text
    again = await http.post("/render?mode=sync", json=body)
    assert again.json() == {**first.json(), "cached": True}
    assert (await http.get(first.json()["url"])).text.startswith("<svg")


async def test_a_task_is_kept_and_run(http: httpx2.AsyncClient) -> None:
    task = {"id": "t", "name": "Say hello", "command": "echo hello"}
    assert (await http.put("/api/tasks", json=task)).status_code == 200
    ran = (await http.put("/api/tasks/t/executions")).json()
    assert (ran["exitCode"], ran["stdout"]) == (0, "hello\n")
    assert len((await http.get("/api/tasks/search?name=hello")).json()) == 1
    page = (await http.get("/api/tasks?page=0&size=10")).json()
    assert (page["totalElements"], [each["id"] for each in page["content"]]) == (1, ["t"])
    [execution] = (await http.get("/api/tasks/t")).json()["taskExecutions"]
    assert (execution["executionId"], execution["stdout"]) == (ran["executionId"], "hello\n")


async def test_a_call_is_handed_on(http: httpx2.AsyncClient, up: Service) -> None:
    mine = {"Authorization": "Bearer mine"}
    answer = await http.post("/reports/x", content=b"z" * 100_000, headers=mine)
    assert (answer.status_code, answer.content) == (201, b"made")
    assert (len(up.got[0].body), up.got[0].header("authorization")) == (100_000, "Bearer mine")
    path = f"/v1/jobs/{answer.headers['coatcheck-job']}/result?wait=30"
    assert (await http.get(path)).status_code == 404
    later = await http.get(path, headers=mine)
    assert (later.status_code, later.headers["set-cookie"]) == (201, "a=1")


async def test_a_model_is_asked(http: httpx2.AsyncClient) -> None:
    """One at a time, and whoever wants to hear of it does."""
    told = asyncio.Event()

    def hear(call: Call) -> int:
        if json.loads(call.body)["state"] == "done":
            told.set()
        return 204

    async with receiving(hear) as receiver:
        body = {"model": "tiny", "messages": [], "state_webhook_url": receiver.url}
        jobs = [(await http.post("/jobs", json=body)).json()["job_id"] for _ in range(3)]
        for job_id in jobs:
            await http.get(f"/v1/jobs/{job_id}?wait=60")
            shown = (await http.get(f"/jobs/{job_id}")).json()
            assert (shown["state"], shown["attempt"]) == ("done", 1)
        async with asyncio.timeout(60):
            await told.wait()
        states = {json.loads(call.body)["state"] for call in receiver.calls}
        assert states == {"loading", "working", "done"}
