"""Keys, scopes, tenants and origin checks of the MCP endpoint."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.mcp import surface
from coatcheck.model.access import Quotas, Scope
from tests.http.arrange import connect
from tests.mcp.client import begun, cancel, connected, look, text_of
from tests.mcp.kinds import Gate

pytestmark = pytest.mark.anyio

ALL = (Scope.READ, Scope.WRITE, Scope.CANCEL)
ACCEPT = {"accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def make_key(engine: Engine, *scopes: str, tenant: str = "acme") -> str:
    return (await engine.authenticator.create_key(tenant, scopes))[1]


async def names(url: str, key: str) -> list[str]:
    async with connected(url, key) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


async def test_tools_match_the_scopes_of_the_key(url: str, engine: Engine) -> None:
    writer = await make_key(engine, "jobs:write:shout", "jobs:write:shop:count")
    reader = await make_key(engine, "jobs:read")
    assert await names(url, writer) == ["shop.count", "shout"]
    assert await names(url, reader) == ["job_status", "job_result"]
    async with connected(url, writer, tasks=True) as client:
        # It could not ask after a task, so it is given none, and no tool to come back with.
        assert text_of(await client.call_tool("shout", {"input": "ho"})) == "HO"
        for tool, arguments in (("buy", {"item": "hat"}), ("job_status", {"job_id": "x"})):
            with pytest.raises(MCPError, match="unknown tool"):
                await client.call_tool(tool, arguments)
    async with connected(url, reader) as client:
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("shout", {"input": "ho"})


async def test_jobs_of_other_kinds_are_rejected(url: str, engine: Engine) -> None:
    all_kinds = await make_key(engine, *ALL)
    one_kind = await make_key(engine, "jobs:read:shout", "jobs:cancel:shout")
    async with connected(url, all_kinds) as client:
        bought = (await client.call_tool("buy", {"item": "hat"})).structured_content["job_id"]
    async with connected(url, one_kind) as client:
        for tool in ("job_status", "job_result", "job_cancel"):
            refused = await client.call_tool(tool, {"job_id": bought})
            assert refused.is_error
            assert refused.structured_content["code"] == "forbidden"


async def test_jobs_and_tasks_of_other_tenants_are_not_found(
    url: str, engine: Engine, gate: Gate
) -> None:
    acme, umbrella = [await make_key(engine, *ALL, tenant=name) for name in ("acme", "umbrella")]
    async with connected(url, acme, tasks=True) as client:
        created = await begun(client, "held", {"input": "x"})
        await gate.entered.wait()
        job = await engine.get(created.task_id, "acme")
        async with connected(url, umbrella, tasks=True) as stranger:
            for method in (look, cancel):
                with pytest.raises(MCPError, match="unknown task"):
                    await method(stranger.session, created.task_id)
            for tool in ("job_status", "job_result", "job_cancel"):
                refused = await stranger.call_tool(tool, {"job_id": job.id})
                assert refused.structured_content["code"] == "not-found"
        assert (await look(client.session, created.task_id)).status == "working"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_job_stores_its_request(url: str, engine: Engine, mode: str) -> None:
    headers = {"x-correlation-id": "ticket-7"}
    async with connected(url, mode=mode, headers=headers) as client:
        told = await client.call_tool("shout", {"input": "ho"})
    job = await engine.get(told.structured_content["job_id"])
    assert (job.correlation_id, job.surface) == ("ticket-7", "mcp")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_call_arguments_are_not_logged(
    url: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)  # as an operator has it who wants to know all of ours
    caplog.set_level(logging.DEBUG, "coatcheck")
    async with connected(url, mode=mode) as client:
        told = await client.call_tool("shout", {"input": "velvet collar"})
        assert text_of(told) == "VELVET COLLAR"
        assert (await client.call_tool("buy", {"item": 1, "count": "velvet"})).is_error
    assert "velvet" not in caplog.text.lower()


async def test_quota_error_is_a_tool_result(url: str, engine: Engine) -> None:
    key = await make_key(engine, *ALL)
    await engine.authenticator.put_tenant("acme", quotas=Quotas(submits_per_minute=0))
    async with connected(url, key) as client:
        refused = await client.call_tool("shout", {"input": "ho"})
    assert refused.is_error
    assert refused.structured_content["retry_after_s"] > 0


async def post(url: str, body: Any = None, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes):
            sent = {**ACCEPT, "content-type": "application/json", **named}
            return await http.post(f"{url}/mcp", content=body, headers=sent)
        return await http.post(f"{url}/mcp", json=body or PING, headers={**ACCEPT, **named})


@pytest.mark.parametrize("with_keys", [False, True])
@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:3000", "null"])
async def test_foreign_origin_is_rejected_with_or_without_a_key(
    url: str, engine: Engine, origin: str, with_keys: bool
) -> None:
    key = {"authorization": f"Bearer {await make_key(engine, *ALL)}"} if with_keys else {}
    refused = await post(url, **key, origin=origin)
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] < 0
    assert (await post(url, **key, sec_fetch_site="cross-site")).status_code == 403
    for own in ({}, {"origin": url}, {"origin": url, "sec_fetch_site": "same-origin"}):
        assert (await post(url, **key, **own)).status_code == 200


async def test_allowed_origin_is_accepted(engine: Engine) -> None:
    page = "https://app.example"
    key = await make_key(engine, *ALL)
    headers = {**ACCEPT, "Authorization": f"Bearer {key}", "Origin": page}
    for origins, status in (([page], 200), (["https://other.example"], 403), ([], 403)):
        app = create_http_app(engine, origins, surfaces=[surface.McpSurface()])
        async with connect(app) as http:
            answer = await http.post("/mcp", json=PING, headers=headers)
            assert answer.status_code == status


async def test_missing_key_is_rejected(url: str, engine: Engine) -> None:
    assert (await post(url)).status_code == 200
    key = await make_key(engine, *ALL)
    refused = await post(url)
    assert refused.status_code == 401
    assert "Bearer" in refused.headers["www-authenticate"]
    assert refused.json()["error"]["message"].startswith("this server needs a key")
    assert (await post(url, authorization="Bearer ck_000000000000_wrong")).status_code == 401
    assert (await post(url, authorization=f"Bearer {key}")).status_code == 200
    assert (await post(url, x_api_key=key)).status_code == 200


async def test_foreign_origins_and_hosts_are_rejected(url: str) -> None:
    assert (await post(url, origin="https://evil.example")).status_code == 403
    assert (await post(url, host="evil.example")).status_code == 403
    assert (await post(url, origin="http://localhost:3000")).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}', 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"a\\u0000b"}', 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b"[]", 400),
        (b"7", 400),
        (b" " * 2_000_000, 413),
    ],
)
async def test_invalid_messages_are_rejected(url: str, body: bytes, status: int) -> None:
    refused = await post(url, body)
    assert refused.status_code == status
    assert refused.json()["error"]["code"] in (-32600, -32602, -32700)


async def test_other_methods_are_rejected(url: str) -> None:
    async with httpx2.AsyncClient() as http:
        assert (await http.get(f"{url}/mcp", headers=ACCEPT)).status_code == 405
        assert (await http.delete(f"{url}/mcp")).status_code == 405
        page = {"accept": "text/html"}
        assert (await http.post(f"{url}/mcp", json=PING, headers=page)).status_code == 406
        text = {**ACCEPT, "content-type": "text/plain"}
        assert (await http.post(f"{url}/mcp", content="{}", headers=text)).status_code == 415


async def test_server_without_the_library_names_the_extra(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surface, "LIBRARY", "no-such-library")
    refused = await post(url)
    assert refused.status_code == 501
    assert "pip install 'coatcheck[mcp]'" in refused.json()["error"]["message"]
