"""Diagrams that are drawn within their request, and the cases in which they are not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.access import Quotas
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, Topic
from coatcheck.surfaces.render.diagram import QUEUE
from coatcheck.surfaces.render.surface import RenderSurface
from coatcheck.worker.processes.warm_process import WarmProcess

from .conftest import Serve

pytestmark = pytest.mark.anyio

FLOW = {"source": "graph TD; A-->B;", "format": "mermaid", "outputType": "svg"}
WRONG = {**FLOW, "source": "graph TD; A--"}
SYNC = "/render?mode=sync"
EVERYTHING = JobFilter(DEFAULT_TENANT)
PATIENCE_S = 60.0


class InspectableSurface(RenderSurface):
    """The surface, with its warm process exposed."""

    @property
    def warm_process(self) -> WarmProcess:
        found = self._handlers.inline._warm_process
        assert found is not None
        return found


@contextlib.asynccontextmanager
async def queued(
    http: httpx2.AsyncClient, engine: Engine, body: Any = FLOW, **headers: str
) -> AsyncIterator[Job]:
    """Request a diagram that no worker draws, for the duration of the block."""
    signal = engine.store.subscribe(Topic.WORK)
    before = {job.id for job in await engine.list_jobs(EVERYTHING)}
    asking = asyncio.create_task(http.post(SYNC, json=body, headers=headers))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (new := await _others(engine, before)):
                await signal.wait()
        yield new[0]
    finally:
        signal.close()
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking


async def _others(engine: Engine, than: set[str]) -> list[Job]:
    return [job for job in await engine.list_jobs(EVERYTHING) if job.id not in than]


async def warm(http: httpx2.AsyncClient, engine: Engine, surface: InspectableSurface) -> None:
    """Start the warm process by a first request, then delete its job."""
    other = {**FLOW, "source": "graph TD; first"}
    async with queued(http, engine, other) as job:
        assert job.state is State.QUEUED
        async with asyncio.timeout(PATIENCE_S):
            await surface.warm_process._ready.wait()
        await engine.cancel(job.id)
    await engine.delete(job.id)


async def test_diagram_is_drawn_within_its_request(serve: Serve) -> None:  # R03, R21
    surface = InspectableSurface({})
    async with serve(surface, works=False, has_worker=True) as (http, engine):
        await warm(http, engine, surface)
        answer = await http.post(SYNC, json=FLOW)
        assert answer.status_code == 200
        shortlink = answer.json()["shortlink"]
        assert answer.json() == {"shortlink": shortlink, "url": f"/d/{shortlink}"}
        picture = await http.get(f"/d/{shortlink}")
        assert (picture.headers["content-type"], "<svg" in picture.text) == ("image/svg+xml", True)
        [job] = await engine.list_jobs(EVERYTHING)
        assert (job.state, job.attempt, job.surface) == (State.SUCCEEDED, 1, "render")
        shown = (await http.get(f"/jobs/{job.public_id}")).json()
        assert (shown["status"], shown["result"]["shortlink"]) == ("completed", shortlink)
        events = await engine.store.jobs.list_events(DEFAULT_TENANT, job.id, 0, 10)
        states = [json.loads(event.data)["state"] for event in events]
        assert states == ["queued", "running", "succeeded"]
        again = await http.post(SYNC, json=FLOW)
        assert again.json() == {**answer.json(), "cached": True}


async def test_source_error_is_returned_within_its_request(serve: Serve) -> None:
    surface = InspectableSurface({})
    async with serve(surface, works=False, has_worker=True) as (http, engine):
        await warm(http, engine, surface)
        answer = await http.post(SYNC, json=WRONG)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
        [job] = await engine.list_jobs(EVERYTHING)
        assert (job.state, job.attempt) == (State.FAILED, 1)
        shown = (await http.get(f"/jobs/{job.public_id}")).json()
        assert (shown["status"], shown["error"]) == ("failed", answer.json()["error"])
    async with serve(RenderSurface({})) as (http, _):
        by_a_worker = await http.post(SYNC, json=WRONG)
        assert (by_a_worker.status_code, by_a_worker.json()) == (400, answer.json())


async def test_queued_jobs_are_not_overtaken(serve: Serve) -> None:
    surface = InspectableSurface({})
    async with serve(surface, works=False, has_worker=True) as (http, engine):
        await warm(http, engine, surface)
        await http.post("/render", json={**FLOW, "source": "graph TD; before"})
        async with queued(http, engine) as job:
            assert job.state is State.QUEUED


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_paused_queue_applies_to_sync_requests(serve: Serve, concurrency: int | None) -> None:
    surface = InspectableSurface({})
    async with serve(surface, works=False, has_worker=True) as (http, engine):
        await warm(http, engine, surface)
        if concurrency is None:
            await engine.store.queues.pause_queue(QUEUE, True, engine.clock.now())
        else:
            await engine.store.queues.limit_queue(QUEUE, concurrency)
        async with queued(http, engine) as job:
            assert job.state is State.QUEUED
        await engine.store.queues.pause_queue(QUEUE, False, engine.clock.now())
        await engine.store.queues.limit_queue(QUEUE, None)
        other = {**FLOW, "source": "graph TD; after"}
        await engine.cancel(job.id)
        assert (await http.post(SYNC, json=other)).status_code == 200


async def test_a_tenant_with_quotas_waits_for_a_worker(serve: Serve) -> None:
    surface = InspectableSurface({})
    async with serve(surface, works=False, has_worker=True) as (http, engine):
        await warm(http, engine, surface)
        _, key = await engine.authenticator.create_key(DEFAULT_TENANT, ["jobs:write", "jobs:read"])
        headers = {"X-Api-Key": key}
        assert (await http.post(SYNC, json=FLOW, headers=headers)).status_code == 200
        await engine.authenticator.put_tenant(DEFAULT_TENANT, quotas=Quotas(submits_per_minute=100))
        other = {**FLOW, "source": "graph TD; within"}
        async with queued(http, engine, other, **headers) as job:
            assert job.state is State.QUEUED


@pytest.mark.parametrize(
    ("environment", "body", "headers"),
    [
        ({}, {**FLOW, "outputType": "png"}, {}),
        ({}, FLOW, {"Idempotency-Key": "k"}),
        ({"QUEUE_MAX_CONCURRENT": "1"}, FLOW, {}),
    ],
    ids=["png", "under a key", "one at a time"],
)
async def test_other_requests_are_left_to_workers(
    serve: Serve, environment: dict[str, str], body: Any, headers: dict[str, str]
) -> None:
    surface = InspectableSurface(environment)
    async with serve(surface, works=False, has_worker=True) as (http, engine):
        if not environment:
            await warm(http, engine, surface)
        async with queued(http, engine, body, **headers) as job:
            assert job.state is State.QUEUED


async def test_server_without_a_worker_draws_nothing(serve: Serve) -> None:
    surface = InspectableSurface({})
    async with serve(surface, works=False) as (http, engine):
        async with queued(http, engine) as job:
            assert job.state is State.QUEUED
        assert surface._handlers.inline._warm_process is None


async def test_large_result_becomes_a_queued_job(serve: Serve) -> None:
    surface = InspectableSurface({})
    source = "graph TD;" + "".join(f"n{n}[{'a long label ' * 6}] --> n{n + 1};" for n in range(60))
    async with serve(surface, has_worker=True) as (http, engine):
        await http.post(SYNC, json=FLOW)
        async with asyncio.timeout(PATIENCE_S):
            await surface.warm_process._ready.wait()
        answer = await http.post(SYNC, json={**FLOW, "source": source})
        assert answer.status_code == 200
        jobs = await engine.list_jobs(EVERYTHING)
        assert [job.state for job in jobs] == [State.SUCCEEDED] * 2, "each diagram has one job"
        assert len((await http.get(answer.json()["url"])).content) > 64 * 1024
