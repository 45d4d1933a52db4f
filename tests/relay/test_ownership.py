"""A relayed call belongs to its caller: to everybody else its job does not exist.

The calls are taken from the endpoint table, so a new endpoint about a job is attacked here without
being named.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from coatcheck import Coatcheck
from coatcheck.engine.engine import Engine
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.routes import ENDPOINTS
from coatcheck.http.surfaces.base import Surface
from coatcheck.http.surfaces.jobs import show_job_endpoint
from coatcheck.mcp.surface import McpSurface
from coatcheck.model.access import Scope
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from tests.http.test_tenants_apart import BODIES
from tests.middleware.asgi_client import open_client as open_app_client
from tests.relay.conftest import Serve

pytestmark = pytest.mark.anyio

CANARY = "canary"
LATER = {"Prefer": "respond-async"}
UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
EVERYTHING = [Scope.READ, Scope.WRITE, Scope.CANCEL]
NAMES = {"fence": "1", "seq": "0", "name": "approve", "file": "body"}


class Scene(NamedTuple):
    """A cancelled job, its owner, and another caller who must not see it."""

    job_id: str
    owner: httpx2.AsyncClient
    other: httpx2.AsyncClient
    endpoints: list[Endpoint]


Stage = Callable[[Serve, Path], AbstractAsyncContextManager[Scene]]


async def key_of(engine: Engine, tenant: str, *scopes: Scope) -> str:
    _, shown = await engine.authenticator.create_key(tenant, scopes or EVERYTHING)
    return shown


@contextlib.asynccontextmanager
async def client_of(url: str, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient(base_url=url, headers=named, timeout=60) as client:
        yield client


def about_jobs(*surfaces: Surface) -> list[Endpoint]:
    """Return every endpoint that names a job."""
    showing = {surface.name: surface for surface in surfaces if surface.shows_jobs}
    found = [*ENDPOINTS, *(each for surface in surfaces for each in surface.endpoints)]
    if showing:
        found.append(show_job_endpoint(showing))
    return [each for each in found if "{job_id}" in each.path]


@contextlib.asynccontextmanager
async def proxy(serve: Serve, _folder: Path) -> AsyncIterator[Scene]:
    """Two keys of one tenant, in front of a service that identifies callers by a token."""
    rules = read_rules([{"match": "POST /reports/*", "target": "http://127.0.0.1:9"}])
    surface = ProxySurface(rules)
    async with serve(surface, McpSurface(), works=False) as server:
        mine, theirs = [await key_of(server.engine, "acme") for _ in range(2)]
        async with (
            client_of(server.url, X_Api_Key=mine, Authorization=f"Bearer {CANARY}") as owner,
            client_of(server.url, X_Api_Key=theirs, Authorization="Bearer other") as other,
        ):
            answer = await owner.post("/reports/x", content=CANARY, headers=LATER)
            job = await server.engine.cancel(answer.json()["id"], "acme")
            yield Scene(job.id, owner, other, about_jobs(surface))


@contextlib.asynccontextmanager
async def foreman(serve: Serve, _folder: Path) -> AsyncIterator[Scene]:
    """Two tenants in front of one Ollama: its jobs belong to tenants."""
    surface = ForemanSurface({"FOREMAN_OLLAMA_URL": "http://127.0.0.1:9"})
    async with serve(surface, McpSurface(), works=False) as server:
        mine, theirs = [await key_of(server.engine, tenant) for tenant in ("acme", "other")]
        async with (
            client_of(server.url, X_Api_Key=mine) as owner,
            client_of(server.url, X_Api_Key=theirs) as other,
        ):
            asked = {"model": "tiny", "messages": [{"role": "user", "content": CANARY}]}
            answer = await owner.post("/jobs", json=asked)
            job = await server.engine.cancel(answer.json()["job_id"], "acme")
            yield Scene(job.id, owner, other, about_jobs(surface))


def wrapped(database: str) -> Coatcheck:
    async def hang(request: Request) -> PlainTextResponse:
        await request.body()
        await asyncio.Event().wait()
        return PlainTextResponse("never")

    app = Starlette(routes=[Route("/render", hang, methods=["POST"])])
    return Coatcheck(app, ["POST /render"], database=database, authorize="none")


async def cancelled_call(owner: httpx2.AsyncClient) -> str:
    answer = await owner.post("/render", content=CANARY, headers=LATER)
    job_id = str(answer.json()["id"])
    await owner.post(f"/v1/jobs/{job_id}/cancel")
    ended = await owner.get(f"/v1/jobs/{job_id}?wait=30")
    assert ended.json()["state"] == "cancelled"
    return job_id


@contextlib.asynccontextmanager
async def middleware(_serve: Serve, folder: Path) -> AsyncIterator[Scene]:
    """Two callers of a wrapped app."""
    app = wrapped(f"sqlite:///{folder}/jobs.db")
    async with open_app_client(app) as owner:
        owner.headers["Authorization"] = f"Bearer {CANARY}"
        transport = owner._transport
        async with httpx2.AsyncClient(transport=transport, base_url=owner.base_url) as other:
            other.headers["Authorization"] = "Bearer other"
            yield Scene(await cancelled_call(owner), owner, other, about_jobs())


@contextlib.asynccontextmanager
async def server_beside_middleware(serve: Serve, folder: Path) -> AsyncIterator[Scene]:
    """A wrapped app, and a server that was started on the same database."""
    app = wrapped(f"sqlite:///{folder}/jobs.db")
    async with open_app_client(app) as owner:
        owner.headers["Authorization"] = f"Bearer {CANARY}"
        job_id = await cancelled_call(owner)
        async with serve(McpSurface(), works=False) as server:
            key = await key_of(server.engine, "default")
            async with client_of(server.url, Authorization=f"Bearer {key}") as other:
                yield Scene(job_id, owner, other, about_jobs())


STAGES: list[Stage] = [proxy, foreman, middleware, server_beside_middleware]


@pytest.fixture(params=STAGES, ids=lambda stage: stage.__name__)
async def scene(request: Any, serve: Serve, tmp_path: Path) -> AsyncIterator[Scene]:
    async with request.param(serve, tmp_path) as scene:
        yield scene


async def ask(client: httpx2.AsyncClient, endpoint: Endpoint, job_id: str) -> tuple[int, str, Any]:
    path = endpoint.path.format(**NAMES, job_id=job_id)
    body = BODIES.get(endpoint.name)
    given = {} if body is None else {"json": body}
    headers = {"X-Correlation-Id": "attack"}
    answer = await client.request(endpoint.method, path, headers=headers, **given)
    kept = {name: text for name, text in answer.headers.items() if name not in ("date", "server")}
    kept.pop("content-length", None)
    return answer.status_code, answer.text.replace(job_id, "ID"), kept


async def test_job_of_another_caller_looks_like_an_unknown_id(scene: Scene) -> None:
    before = (await scene.owner.get(f"/v1/jobs/{scene.job_id}")).text
    assert scene.job_id in before
    for endpoint in scene.endpoints:
        found = await ask(scene.other, endpoint, scene.job_id)
        assert found == await ask(scene.other, endpoint, UNKNOWN), endpoint.name
        assert found[0] in (403, 404, 405), endpoint.name
        assert CANARY not in found[1]
    assert (await scene.owner.get(f"/v1/jobs/{scene.job_id}")).text == before


async def test_lists_and_bulk_operations_skip_jobs_of_others(scene: Scene) -> None:
    if (await scene.other.get("/v1/jobs")).status_code == 404:
        return  # a wrapped app serves neither
    before = (await scene.owner.get(f"/v1/jobs/{scene.job_id}")).text
    assert scene.job_id not in (await scene.other.get("/v1/jobs")).text
    for verb in ("resumptions", "deletions"):
        for dry_run in (True, False):
            asked = {"state": "cancelled", "dry_run": dry_run}
            done = await scene.other.post(f"/v1/{verb}", json=asked)
            assert (done.status_code, done.json()["jobs"]) == (200, 0), done.text
    assert (await scene.owner.get(f"/v1/jobs/{scene.job_id}")).text == before


@pytest.mark.parametrize("tool", ["job_status", "job_result", "job_cancel"])
async def test_mcp_tools_do_not_find_jobs_of_others(scene: Scene, tool: str) -> None:
    async def call(job_id: str) -> tuple[int, str]:
        params = {"name": tool, "arguments": {"job_id": job_id}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
        }
        answer = await scene.other.post("/mcp", json=message, headers=headers)
        return answer.status_code, answer.text.replace(job_id, "ID")

    found = await call(scene.job_id)
    assert found == await call(UNKNOWN)
    assert found[0] == 404 or "there is no job ID" in found[1], json.dumps(found)
