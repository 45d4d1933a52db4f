"""The MCP library's client, with and without the tasks extension."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, cast

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

EXTENSION = "io.modelcontextprotocol/tasks"
KEY = "coatcheck/idempotencyKey"


class CreatedTask(types.Result):
    result_type: Literal["task"]
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class Task(types.Result):
    task_id: str
    status: str
    status_message: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    result: types.CallToolResult | None = None


class TaskParams(types.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams


class UpdateTask(types.Request[UpdateParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateParams


class KnowsTasks(ClientExtension):
    """What a client that knows tasks brings along: a call is finished by asking after its task."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._finish)]

    async def _finish(self, created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        return await finished(context.session, created.task_id)


async def look(session: ClientSession, task_id: str) -> Task:
    return await session.send_request(GetTask(params=TaskParams(task_id=task_id)), Task)


async def cancel(session: ClientSession, task_id: str) -> types.Result:
    return await session.send_request(CancelTask(params=TaskParams(task_id=task_id)), types.Result)


async def update(session: ClientSession, task_id: str) -> types.Result:
    params = UpdateParams(task_id=task_id, input_responses={"name": {"action": "decline"}})
    return await session.send_request(UpdateTask(params=params), types.Result)


async def ended(session: ClientSession, task_id: str) -> Task:
    """Ask after a task until it has ended, more often than it says."""
    while (task := await look(session, task_id)).status == "working":  # noqa: ASYNC110 - polling
        await asyncio.sleep(0.02)
    return task


async def finished(session: ClientSession, task_id: str) -> types.CallToolResult:
    task = await ended(session, task_id)
    assert task.result is not None, task
    return task.result


def under(key: str) -> types.RequestParamsMeta:
    """Return what makes a call that is repeated happen once."""
    meta: Any = {KEY: key}
    return cast("types.RequestParamsMeta", meta)


async def begun(
    client: Client,
    tool: str,
    arguments: dict[str, Any],
    meta: types.RequestParamsMeta | None = None,
) -> CreatedTask:
    """Call a tool and return the task that this is answered with."""
    created = await client.session.call_tool(tool, arguments, allow_claimed=True, meta=meta)
    assert isinstance(created, CreatedTask)
    return created


@asynccontextmanager
async def connected(
    url: str,
    key: str | None = None,
    *,
    tasks: bool = False,
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Client]:
    """Connect over HTTP."""
    sent = dict(headers or {})
    if key is not None:
        sent["authorization"] = f"Bearer {key}"
    async with httpx2.AsyncClient(headers=sent, timeout=60) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        extensions = [KnowsTasks()] if tasks else []
        async with Client(transport, mode=mode, extensions=extensions) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text
