"""A key for one kind has no access to another: every endpoint of every surface, one by one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.errors import ConfigurationError
from coatcheck.http.app import create_http_app
from coatcheck.http.auth.caller import check_kind, tenant_of
from coatcheck.http.endpoint import JSON, Access, Endpoint, EndpointResponse, KindRule, Parameter
from coatcheck.http.routes import ENDPOINTS
from coatcheck.http.surfaces.base import Surface
from coatcheck.model.access import Scope
from coatcheck.model.schedule import ScheduleDefinition, Timing
from coatcheck.surfaces.tasks.task import Task, put_task
from tests.hardening.surfaces import (
    every_surface,
    every_surface_served,
    names_of_entry_points,
)
from tests.http.arrange import connect, worker_info
from tests.http.test_tenants_apart import BODIES

pytestmark = pytest.mark.anyio

ACME = "acme"
SCOPES = (Scope.READ, Scope.WRITE, Scope.CANCEL)
SECRET = "the launch code"
URL = "https://93.184.216.34/hook"
# A body for each surface that a key for all kinds could send.
SURFACE_BODIES: dict[str, Any] = {
    "putTask": {"id": "t1", "name": "mine now", "command": "id"},
    "validateCommand": {"command": "id"},
    "render": {"source": "graph TD; A-->B;", "format": "mermaid"},
    "ingest": {"text": "some words", "name": "a.txt", "collection": "papers"},
    "chat": {"model": "m", "messages": []},
    "generate": {"model": "m", "prompt": "x"},
    "openaiChat": {"model": "m", "messages": []},
    "openaiComplete": {"model": "m", "prompt": "x"},
    "showModel": {"model": "m"},
    "embed": {"model": "m", "input": "x"},
    "embeddings": {"model": "m", "prompt": "x"},
    "openaiEmbeddings": {"model": "m", "input": "x"},
    "submitChat": {"model": "m", "messages": []},
}
QUERIES = {"searchCollection": {"q": "words"}, "searchTasks": {"name": "old"}}
HEADERS = {f"graph{each}": {"Idempotency-Key": "k"} for each in ("Calls", "Dependencies")}


class Server(NamedTuple):
    """A server with every surface, and a tenant that has one of everything."""

    engine: Engine
    endpoints: list[Endpoint]
    http: httpx2.AsyncClient
    jobs: list[str]
    names: dict[str, str]
    database: Path

    def contents(self) -> list[str]:
        """Return every row of the database as text, apart from the keys."""
        with closing(sqlite3.connect(self.database)) as db:
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return [
                f"{name}: {row}"
                for (name,) in tables
                if name not in ("keys", "access") and not name.startswith("sqlite_")
                for row in db.execute(f'SELECT * FROM "{name}"')
            ]


def all_endpoints(surfaces: list[Surface]) -> list[Endpoint]:
    return [*ENDPOINTS, *(each for surface in surfaces for each in surface.endpoints)]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with every_surface_served(tmp_path) as (engine, app, surfaces), connect(app) as http:
        jobs, names = await _furnish(engine)
        endpoints = all_endpoints(surfaces)
        yield Server(engine, endpoints, http, jobs, names, tmp_path / "jobs.db")


async def _furnish(engine: Engine) -> tuple[list[str], dict[str, str]]:
    """Give the tenant a waiting and a running job, an upload, a schedule, a webhook and a task."""
    waiting = await engine.submit(Submission("echo", json.dumps(SECRET), tenant=ACME))
    await engine.store.workers.register_worker(worker_info("claimer"))
    running = await engine.submit(Submission("echo", json.dumps(SECRET), tenant=ACME, priority=9))
    [claim] = (await engine.claim("claimer", ["echo"], 1)).claims
    assert claim.lease.job_id == running.id
    upload = (await engine.uploads.receive(SECRET.encode(), name=SECRET, tenant=ACME)).upload
    webhook, _ = await engine.webhooks.create(WebhookSpec(URL), SECRET, ACME)
    schedule = ScheduleDefinition(
        "nightly", "echo", timing=Timing(every_ms=60_000), input=f'"{SECRET}"'
    )
    await engine.schedules.put(schedule, tenant=ACME)
    task = Task(id="t1", name=SECRET, command="uname")
    await put_task(engine, ACME, task, "cli")
    names = {
        "schedule": "nightly",
        "upload_id": upload.id,
        "webhook": webhook.id,
        "delivery": f"{waiting.id}.1.{webhook.id}",
        "key_id": "000000000000",
        "owner": ACME,
        "fence": str(claim.lease.fence),
        "seq": "0",
        "name": "news",
        "file": "a.txt",
        "kind": "echo",
        "queue": "default",
        "task_id": "t1",
        "execution_id": waiting.id,
        "model:path": "m",
        "model": "m",
        "collection": "papers",
        "document_id": "d1",
        "shortlink": "abcdefgh",
    }
    return [waiting.id, running.id], names


async def make_key(engine: Engine, tenant: str, *scopes: str) -> dict[str, str]:
    _, shown = await engine.authenticator.create_key(tenant, scopes)
    return {"Authorization": f"Bearer {shown}"}


async def call(server: Server, endpoint: Endpoint, job: str, key: dict[str, str]) -> Any:
    path = endpoint.path.replace(":path}", "}").format(job_id=job, **server.names)
    body = {**BODIES, **SURFACE_BODIES}.get(endpoint.name)
    sent: dict[str, Any] = {} if body is None else {"json": body}
    headers = {**key, **HEADERS.get(endpoint.name, {})}
    query = dict(QUERIES.get(endpoint.name, {}))
    if endpoint.scope is Scope.WORK:
        query["tenant"] = ACME
    return await server.http.request(endpoint.method, path, params=query, headers=headers, **sent)


def test_every_built_in_surface_is_covered() -> None:
    names = {surface.name for surface in every_surface()}
    assert names >= names_of_entry_points() | {"proxy", "mcp"}


async def test_a_key_for_another_kind_reads_and_changes_nothing(server: Server) -> None:
    limited = [f"{scope}:nope" for scope in SCOPES]
    tenants_key = await make_key(server.engine, ACME, *limited)
    workers_key = await make_key(server.engine, "default", "jobs:work:nope", *limited)
    before = server.contents()
    walked = 0
    for endpoint in server.endpoints:
        if endpoint.scope is None:
            continue  # open to every key by declaration: see the next test
        key = workers_key if endpoint.scope is Scope.WORK else tenants_key
        for job in server.jobs:
            answer = await call(server, endpoint, job, key)
            walked += 1
            where = f"{endpoint.method} {endpoint.path}: {answer.status_code} {answer.text}"
            assert answer.status_code in (403, 404), where
            assert SECRET not in answer.text, where
    assert walked > 100
    assert server.contents() == before


async def test_endpoints_open_to_every_key_show_nothing_of_the_tenant(server: Server) -> None:
    key = await make_key(server.engine, ACME, *[f"{scope}:nope" for scope in SCOPES])
    before = server.contents()
    for endpoint in server.endpoints:
        if endpoint.scope is None and endpoint.name != "mcp":
            answer = await call(server, endpoint, server.jobs[0], key)
            assert endpoint.method == "GET", "a write needs a scope"
            assert SECRET not in answer.text
            assert not any(job in answer.text for job in server.jobs)
    assert server.contents() == before


async def test_an_mcp_client_with_a_key_for_another_kind_has_no_tools(server: Server) -> None:
    key = await make_key(server.engine, ACME, *[f"{scope}:nope" for scope in SCOPES])
    headers = {**key, "Accept": "application/json, text/event-stream"}
    before = server.contents()
    for tool, arguments in [
        *((name, {"input": 1}) for name in sorted(server.engine.kinds)),
        *((name, {"job_id": server.jobs[0]}) for name in ("job_status", "job_result")),
        ("job_cancel", {"job_id": server.jobs[1]}),
    ]:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await server.http.post("/mcp", json=message, headers=headers)
        assert SECRET not in answer.text
        assert '"isError":true' in answer.text or '"error"' in answer.text, answer.text
    assert server.contents() == before


async def test_a_key_for_the_kind_is_served(server: Server) -> None:
    key = await make_key(server.engine, ACME, "jobs:read:echo", "jobs:write:echo")
    for path, params in (
        (f"/v1/jobs/{server.jobs[0]}", {}),
        ("/v1/jobs", {"kind": "echo"}),
        ("/v1/schedules/nightly", {}),
        (f"/v1/uploads/{server.names['upload_id']}", {}),
    ):
        answer = await server.http.get(path, params=params, headers=key)
        assert answer.status_code == 200, answer.text
    changed = {"kind": "echo", "every_s": 60}
    assert (
        await server.http.put("/v1/schedules/nightly", json=changed, headers=key)
    ).status_code == 200
    stolen = await server.http.put(
        "/v1/schedules/nightly", json={**changed, "kind": "fail"}, headers=key
    )
    assert stolen.status_code == 403


# --- surfaces of others


async def forgetful(request: Request) -> Response:
    return JSONResponse({"tenant": tenant_of(request)})


async def careful(request: Request) -> Response:
    check_kind(request, Scope.READ, request.query_params.get("x"))
    return await forgetful(request)


class Foreign(Surface):
    """A surface with one endpoint that a test defines."""

    name = "foreign"

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoints = (endpoint,)

    def declare(self, app: App) -> None:
        """Declare nothing."""


def endpoint_of(handler: Any, **more: Any) -> Endpoint:
    answers = {200: EndpointResponse("It.", {JSON: {"type": "object"}})}
    return Endpoint("GET", "/foreign", handler, "foreign", "Foreign", "foreign", answers, **more)


@pytest.mark.parametrize("access", [Access.TENANT, Access.HANDLER_CHECKED, Access.OPERATOR])
async def test_an_endpoint_without_a_permission_is_rejected_at_startup(
    server: Server, access: Access
) -> None:
    endpoint = endpoint_of(forgetful, access=access)
    with pytest.raises(ConfigurationError, match="GET /foreign does not declare its permission"):
        create_http_app(server.engine, surfaces=[Foreign(endpoint)])


async def test_a_handler_that_forgets_to_check_the_kind_cannot_reach_the_tenant(
    server: Server,
) -> None:
    limited = await make_key(server.engine, ACME, "jobs:read:echo")
    for handler, expected in ((forgetful, 403), (careful, 200)):
        endpoint = endpoint_of(
            handler, kind=KindRule.REQUEST, parameters=(Parameter("x", "A kind.", {}),)
        )
        async with connect(create_http_app(server.engine, surfaces=[Foreign(endpoint)])) as http:
            answer = await http.get("/foreign", params={"x": "echo"}, headers=limited)
            assert answer.status_code == expected, answer.text
