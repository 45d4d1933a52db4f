"""Kinds as tools, for clients without the tasks extension."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError

from coatcheck.engine.engine import Engine
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from tests.mcp.client import connected, text_of, under
from tests.mcp.kinds import Gate

pytestmark = pytest.mark.anyio

MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@MODES
async def test_call_returns_the_result_of_its_job(url: str, mode: str) -> None:
    async with connected(url, mode=mode) as client:
        bought = await client.call_tool("buy", {"item": "hat", "count": 2})
        assert text_of(bought) == '{"bought":"hat","count":2,"discount":null}'
        assert bought.structured_content["state"] == "succeeded"
        expected = {"bought": "hat", "count": 2, "discount": None}
        assert bought.structured_content["result"] == expected
        assert not bought.is_error
        # What is no object is one argument, and a text is shown as itself.
        assert text_of(await client.call_tool("shout", {"input": "ho"})) == "HO"
        assert text_of(await client.call_tool("shop.count", {})) == "0"
        assert text_of(await client.call_tool("job_status_2", {})) == "a kind"


async def test_tools_are_listed_with_the_schemas_of_their_kinds(url: str) -> None:
    async with connected(url) as client:
        listed = await client.list_tools()
    tools = {tool.name: tool for tool in listed.tools}
    assert list(tools) == [
        *("broken", "buy", "climb", "held", "job_status_2", "large", "shop.count", "shout"),
        *("job_status", "job_result", "job_cancel"),
    ]
    # What only a surface can hand in is not among them, nor can it be called.
    async with connected(url) as client:
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("of_a_surface", {})
    assert tools["buy"].description == "Buy something."
    # What is listed is the key's own: nobody may keep it for others.
    assert listed.cache_scope == "private"
    fitting: dict[str, list[dict[str, Any]]] = {
        "buy": [{"item": "hat"}, {"item": "hat", "count": 2}],
        "climb": [{"name": "oak", "below": [{"name": "ivy"}]}],
        "shop.count": [{"input": [1]}, {"input": None}, {}],
        "shout": [{"input": "ho"}],
        "broken": [{}],
        "job_result": [{"job_id": "x", "wait_s": 60}],
    }
    wrong: dict[str, list[dict[str, Any]]] = {
        "buy": [{}, {"item": 1}],
        "climb": [{"name": "oak", "below": [{}]}],
        "shop.count": [{"input": ["x"]}, {"inputs": []}],
        "shout": [{}, {"input": 1}],
        "broken": [{"input": 1}],
        "job_result": [{"job_id": "x", "wait_s": 61}, {}],
    }
    for name, tool in tools.items():
        schema = jsonschema.Draft202012Validator(tool.input_schema)
        assert tool.input_schema["type"] == "object", name
        assert all(schema.is_valid(each) for each in fitting.get(name, [])), name
        assert not any(schema.is_valid(each) for each in wrong.get(name, [])), name


@MODES
async def test_invalid_input_is_an_error_with_pointers(url: str, engine: Engine, mode: str) -> None:
    async with connected(url, mode=mode) as client:
        refused = await client.call_tool("buy", {"count": "many"})
        assert refused.is_error
        assert "Field required" in text_of(refused)
        pointers = {each["pointer"] for each in refused.structured_content["errors"]}
        assert pointers == {"/item", "/count"}
        wrapped = await client.call_tool("shout", {"input": 1})
        assert [each["pointer"] for each in wrapped.structured_content["errors"]] == ["/input"]
        for tool, arguments in (
            ("shout", {"text": "ho"}),
            ("broken", {"input": 1}),
            ("job_result", {"job_id": "x", "wait_s": 61}),
            ("job_status", {}),
            ("job_status", {"job_id": "01M7GDTNAQ55VVM48585MMPRGK"}),
        ):
            assert (await client.call_tool(tool, arguments)).is_error, (tool, arguments)
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("sell", {})
    assert await engine.store.queues.list_queues() == []  # nothing was submitted


@MODES
async def test_failed_job_is_an_error_result(url: str, mode: str) -> None:
    async with connected(url, mode=mode) as client:
        failed = await client.call_tool("broken", {})
    assert failed.is_error
    assert text_of(failed).endswith("failed: no-luck: it was not to be")
    assert failed.structured_content["error"]["code"] == "no-luck"


@MODES
async def test_long_job_returns_its_id(impatient: str, gate: Gate, mode: str) -> None:
    async with connected(impatient, mode=mode) as client:
        going_on = await client.call_tool("held", {"input": "coat"})
        job_id = going_on.structured_content["job_id"]
        assert not going_on.is_error
        assert job_id in text_of(going_on)
        assert "job_result" in text_of(going_on)
        await gate.entered.wait()
        status = None
        while status is None or status["progress"] is None:  # which is on its way
            shown = await client.call_tool("job_status", {"job_id": job_id})
            status = shown.structured_content
        assert status["state"] == "running"
        assert status["progress"]["message"] == "one"
        early = await client.call_tool("job_result", {"job_id": job_id})
        assert early.structured_content["state"] == "running"
        waiting = asyncio.create_task(
            client.call_tool("job_result", {"job_id": job_id, "wait_s": 60})
        )
        gate.opened.set()
        assert text_of(await waiting) == "coat"


async def test_job_is_cancelled(impatient: str, gate: Gate) -> None:
    async with connected(impatient) as client:
        job_id = (await client.call_tool("held", {"input": "x"})).structured_content["job_id"]
        await gate.entered.wait()
        assert not (await client.call_tool("job_cancel", {"job_id": job_id})).is_error
        ended = await client.call_tool("job_result", {"job_id": job_id, "wait_s": 60})
    assert ended.is_error
    assert ended.structured_content["state"] == "cancelled"


@MODES
async def test_disconnect_cancels_nothing(url: str, engine: Engine, gate: Gate, mode: str) -> None:
    async with connected(url, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("held", {"input": "coat"}))
        await gate.entered.wait()
        call.cancel()
    [job] = await engine.list_jobs(JobFilter(DEFAULT_TENANT))
    gate.opened.set()
    assert (await engine.wait(job.id, 60)).state is State.SUCCEEDED


@MODES
async def test_progress_is_reported_on_request(url: str, gate: Gate, mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        gate.opened.set()  # the job goes on because this has arrived

    async with connected(url, mode=mode) as client:
        held = await client.call_tool("held", {"input": "coat"}, progress_callback=told)
    assert text_of(held) == "coat"
    assert seen[:1] == [(1, 3, "one")]
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})


@MODES
async def test_repeated_call_with_the_same_key_is_one_job(impatient: str, mode: str) -> None:
    key = under("order 7")
    async with connected(impatient, mode=mode) as client:
        jobs = [
            (await client.call_tool("buy", {"item": "hat"}, meta=key)).structured_content["job_id"]
            for _ in range(2)
        ]
        assert jobs[0] == jobs[1]
        other = await client.call_tool("buy", {"item": "coat"}, meta=key)
        assert other.is_error
        assert other.structured_content["code"] == "idempotency-key-reused"
        with pytest.raises(MCPError, match="printable"):
            await client.call_tool("buy", {"item": "hat"}, meta=under("\n"))


async def test_large_result_is_returned_as_a_path(url: str) -> None:
    async with connected(url) as client:
        large = await client.call_tool("large", {"input": 70_000})
    where = large.structured_content["result_at"]
    assert where in text_of(large)
    assert "result" not in large.structured_content


async def test_stopping_server_releases_a_waiting_call(
    engine: Engine, worker: None, serving: Any, gate: Gate
) -> None:
    async with serving(engine) as url, connected(url) as client:
        call = asyncio.create_task(client.call_tool("held", {"input": "x"}))
        await gate.entered.wait()
        engine.release_waiters()
        assert (await call).structured_content["state"] == "running"
