"""The tasks extension: a call returns a task immediately, and the client polls it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from tests.mcp.client import begun, cancel, connected, ended, look, text_of, under, update
from tests.mcp.kinds import Gate

pytestmark = pytest.mark.anyio


async def test_call_returns_a_task_that_completes_with_the_result(url: str, gate: Gate) -> None:
    async with connected(url, tasks=True) as client:
        created = await begun(client, "held", {"input": "coat"})
        # 128 bits that nobody can guess: the job's own id tells when it was made.
        assert re.fullmatch(r"task_[0-9a-f]{32}", created.task_id)
        assert created.status == "working"
        assert created.poll_interval_ms
        await gate.entered.wait()
        while (task := await look(client.session, created.task_id)).status_message == "running":
            pass  # what it says of itself is on its way
        assert (task.status, task.status_message) == ("working", "running at 1 of 3: one")
        gate.opened.set()
        task = await ended(client.session, created.task_id)
        assert (task.status, task.poll_interval_ms) == ("completed", None)
        assert task.ttl_ms is not None
        assert task.result is not None
        assert text_of(task.result) == "coat"


async def test_client_library_hides_tasks(url: str) -> None:
    async with connected(url, tasks=True) as client:
        bought = await client.call_tool("buy", {"item": "hat"})
    expected = {"bought": "hat", "count": 1, "discount": None}
    assert bought.structured_content["result"] == expected


async def test_failed_job_completes_its_task_with_an_error(url: str) -> None:
    async with connected(url, tasks=True) as client:
        created = await begun(client, "broken", {})
        task = await ended(client.session, created.task_id)
    assert task.status == "completed"
    assert task.result is not None
    assert task.result.is_error
    assert "no-luck" in text_of(task.result)


async def test_task_is_cancelled(url: str, gate: Gate) -> None:
    async with connected(url, tasks=True) as client:
        created = await begun(client, "held", {"input": "x"})
        await gate.entered.wait()
        await cancel(client.session, created.task_id)
        task = await ended(client.session, created.task_id)
        assert (task.status, task.result) == ("cancelled", None)
        await cancel(client.session, created.task_id)  # it stays as it is


async def test_invalid_input_creates_no_task(url: str, engine: Engine) -> None:
    async with connected(url, tasks=True) as client:
        assert (await client.call_tool("buy", {})).is_error
    assert await engine.store.queues.list_queues() == []


async def test_any_replica_can_answer_for_a_task(url: str, serving: Any, gate: Gate) -> None:
    async with (
        connected(url, tasks=True) as client,
        serving() as another,
        connected(another, tasks=True) as elsewhere,
    ):
        created = await begun(client, "held", {"input": "coat"})
        assert (await look(elsewhere.session, created.task_id)).status == "working"
        gate.opened.set()
        task = await ended(elsewhere.session, created.task_id)
        assert task.status == "completed"


async def test_repeated_call_with_the_same_key_is_one_task(url: str) -> None:
    async with connected(url, tasks=True) as client:
        created = [await begun(client, "shout", {"input": "ho"}, under("7")) for _ in range(2)]
    assert created[0].task_id == created[1].task_id


async def test_unknown_task_is_not_found(url: str, engine: Engine) -> None:
    job = await engine.submit(Submission("shout", '"ho"'))
    async with connected(url, tasks=True) as client:
        for task_id in (job.id, f"task_{'0' * 32}", "", "../x"):
            for method in (look, cancel, update):
                with pytest.raises(MCPError) as refused:
                    await method(client.session, task_id)
                assert refused.value.code == INVALID_PARAMS


async def test_update_changes_nothing(url: str, gate: Gate) -> None:
    async with connected(url, tasks=True) as client:
        created = await begun(client, "held", {"input": "x"})
        await update(client.session, created.task_id)
        assert (await look(client.session, created.task_id)).status == "working"


async def test_client_without_the_extension_has_no_tasks(url: str) -> None:
    async with connected(url, tasks=True) as client:
        created = await begun(client, "shout", {"input": "ho"})
    async with connected(url) as client:
        assert text_of(await client.call_tool("shout", {"input": "ho"})) == "HO"
        with pytest.raises(MCPError) as refused:
            await look(client.session, created.task_id)
    assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    needed: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert refused.value.data == {"requiredCapabilities": needed}
