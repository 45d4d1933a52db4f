"""Input fields that the relay writes are rejected from everybody else, at every entry point."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck import App, Coatcheck
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import ConfigurationError, InvalidPayload
from coatcheck.http.app import create_http_app
from coatcheck.mcp.surface import McpSurface
from coatcheck.model.job import DEFAULT_TENANT, Claim, Lease
from coatcheck.model.job import OWNER_LABEL as OWNER
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.foreman.constants import KIND as FOREMAN_KIND
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from tests.http.arrange import connect
from tests.store.template import migrated

pytestmark = pytest.mark.anyio

SEEN = {"host": "app.example", "identity": {"user": "admin"}}
INTERNAL: dict[str, Any] = {
    "credentials": "relay2:c3RvbGVu",
    "owner": "authorization:00",
    "owned": True,
    "line": "0" * 32,
}
# As an earlier version had it.
FORMER: dict[str, Any] = {"line": {"socket": "0" * 32, "ticket": "0" * 32}}
TICK = {"every_s": 3600}


class Relay(NamedTuple):
    """A kind of relayed calls, and an input that a client may give it."""

    app: App
    kind: str
    call: dict[str, Any]


def proxy() -> Relay:
    app = App()
    app.use(ProxySurface(read_rules([{"match": "POST /x", "target": "http://127.0.0.1:9"}])))
    return Relay(app, "proxy.post-x", {"method": "POST", "path": "/x"})


def foreman() -> Relay:
    app = App()
    app.use(ForemanSurface({"FOREMAN_OLLAMA_URL": "http://127.0.0.1:9"}))
    return Relay(app, FOREMAN_KIND, {"method": "POST", "path": "/api/chat", "model": "tiny"})


def middleware() -> Relay:
    wrapped = Coatcheck(Starlette(), ["POST /x"], authorize="none")
    # Every call of a wrapped app has an internal field, so no client can submit one.
    return Relay(wrapped._jobs, "app", {"method": "POST", "path": "/x"})


RELAYS = [proxy, foreman, middleware]


class Server(NamedTuple):
    """A server that knows a relay's kind."""

    relay: Relay
    engine: Engine
    http: httpx2.AsyncClient


@pytest.fixture(params=RELAYS, ids=lambda relay: relay.__name__)
async def server(request: Any, tmp_path: Path) -> AsyncIterator[Server]:
    relay = request.param()
    store = SQLiteStore(migrated(tmp_path / "jobs.db"))
    await store.open()
    engine = Engine(store, relay.app.kinds)
    async with connect(create_http_app(engine, surfaces=[McpSurface()])) as http:
        yield Server(relay, engine, http)
    await store.close()


Entry = Callable[[Server, dict[str, Any]], Awaitable[Any]]


async def jobs(server: Server, call: dict[str, Any]) -> httpx2.Response:
    asked = {"kind": server.relay.kind, "input": call}
    return await server.http.post("/v1/jobs", json=asked)


async def jobs_with_options(server: Server, call: dict[str, Any]) -> httpx2.Response:
    asked = {"kind": server.relay.kind, "input": call, "priority": 1}
    return await server.http.post("/v1/jobs", json=asked)


async def batch(server: Server, call: dict[str, Any]) -> httpx2.Response:
    asked = {"jobs": [{"kind": server.relay.kind, "input": call}]}
    return await server.http.post("/v1/batches", json=asked)


async def schedule(server: Server, call: dict[str, Any]) -> httpx2.Response:
    asked = {"kind": server.relay.kind, "input": call, **TICK}
    return await server.http.put("/v1/schedules/s", json=asked)


async def fork(server: Server, call: dict[str, Any]) -> httpx2.Response:
    stored = {**server.relay.call, "seen": SEEN} if server.relay.kind == "app" else None
    text = json.dumps(stored or server.relay.call)
    source = await server.engine.submit(Submission(server.relay.kind, text, trusted=True))
    asked = {"from_step": 0, "input": call}
    answer = await server.http.post(f"/v1/jobs/{source.id}/fork", json=asked)
    await server.engine.cancel(source.id)
    await server.engine.delete(source.id)
    return answer


HTTP_ENTRIES: list[Entry] = [jobs, jobs_with_options, batch, schedule, fork]


async def mcp(server: Server, call: dict[str, Any]) -> None:
    params = {"name": server.relay.kind, "arguments": call}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    answer = await server.http.post("/mcp", json=message, headers=headers)
    assert '"isError":true' in answer.text.replace(" ", ""), answer.text
    raise InvalidPayload(answer.text)


async def enqueue(server: Server, call: dict[str, Any]) -> None:
    server.relay.app.enqueue(None, server.relay.kind, call)


async def spawn(server: Server, call: dict[str, Any]) -> None:
    job = Lease(DEFAULT_TENANT, server.engine.new_id(), 1)
    terms = server.engine.kinds[server.relay.kind].terms
    claim = Claim(job, "parent", "api", "default", "null", 1, terms, 0, None, None)
    server.engine.child_of(claim, server.relay.kind, json.dumps(call))


async def declared_schedule(server: Server, call: dict[str, Any]) -> None:
    try:
        server.relay.app.schedule("s", server.relay.kind, call, every="1h")
    except ConfigurationError as error:
        raise InvalidPayload(str(error)) from error


OTHER_ENTRIES: list[Entry] = [mcp, enqueue, spawn, declared_schedule]


def forged(relay: Relay) -> list[dict[str, Any]]:
    fields = [{name: value} for name, value in INTERNAL.items()] + [FORMER]
    if relay.kind == "app":
        fields = [{"seen": SEEN, **each} for each in [*fields, {}]]
    return [{**relay.call, **each} for each in fields]


@pytest.mark.parametrize("entry", HTTP_ENTRIES, ids=lambda entry: entry.__name__)
async def test_internal_fields_are_rejected_over_http(server: Server, entry: Entry) -> None:
    for call in forged(server.relay):
        answer = await entry(server, call)
        assert answer.status_code == 422, (call, answer.text)
        assert "set by the server" in answer.text
    assert await server.engine.list_jobs(JobFilter(DEFAULT_TENANT)) == []


@pytest.mark.parametrize("entry", OTHER_ENTRIES, ids=lambda entry: entry.__name__)
async def test_internal_fields_are_rejected_at_other_entry_points(
    server: Server, entry: Entry
) -> None:
    for call in forged(server.relay):
        with pytest.raises(InvalidPayload, match="set by the server"):
            await entry(server, call)
    assert await server.engine.list_jobs(JobFilter(DEFAULT_TENANT)) == []


@pytest.mark.parametrize("entry", [jobs_with_options, batch, schedule])
async def test_owner_label_cannot_be_set_by_a_client(server: Server, entry: Entry) -> None:
    labelled = {"kind": server.relay.kind, "input": server.relay.call, "labels": {OWNER: "x"}}
    if entry is batch:
        answer = await server.http.post("/v1/batches", json={"jobs": [labelled]})
    elif entry is schedule:
        answer = await server.http.put("/v1/schedules/s", json={**labelled, **TICK})
    else:
        answer = await server.http.post("/v1/jobs", json=labelled)
    assert answer.status_code == 422
    assert OWNER in answer.text


async def test_call_without_internal_fields_is_accepted(server: Server) -> None:
    answer = await jobs(server, server.relay.call)
    assert answer.status_code == (422 if server.relay.kind == "app" else 202), answer.text


async def test_input_schema_has_no_internal_fields(server: Server) -> None:
    described = server.engine.kinds[server.relay.kind].input_schema()
    assert not described["properties"].keys() & {*INTERNAL, "seen"}
    assert described["required"] == [
        name for name in described["properties"] if name in ("method", "path", "model")
    ]
