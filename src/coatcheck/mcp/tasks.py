"""Tasks: the extension `io.modelcontextprotocol/tasks`, over jobs.

A call of a tool answers with a task where the client declares with the call that it knows them. The
client asks after it with `tasks/get`, and finds the result of the call in the task once it has
ended; `tasks/cancel` stops it. No job asks its client for anything, so `tasks/update` has nothing
to bring.

A task is a job in other words:

    queued, running, waiting    working
    succeeded                   completed
    failed                      completed, with a result that says isError
    cancelled                   cancelled

`failed` is for calls that could not be made at all, and those are refused before there is a job.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from coatcheck.clock import to_rfc3339
from coatcheck.errors import CoatcheckError, NotFound, Unauthorized
from coatcheck.mcp.caller import Context, McpCaller, asked_by
from coatcheck.mcp.names import SURFACE
from coatcheck.mcp.views import describe, ended
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.state import State

EXTENSION = "io.modelcontextprotocol/tasks"
_TASK_ID = re.compile(r"task_[0-9a-f]{32}")
_NO_SUCH_TASK = "there is no such task"


class TaskParams(RequestParams):
    """Which task."""

    task_id: str


class UpdateParams(TaskParams):
    """Which task, and what it asked for."""

    input_responses: dict[str, Any]


class Tasks:
    """The methods of the extension."""

    async def get(self, context: Context, params: TaskParams) -> HandlerResult:
        """Tell how a task stands, and what it has come to."""
        asked, job = await _find(context, params, Scope.READ)
        view = _view(job, asked.engine.retry_after(job))
        if view["status"] == "completed":
            result = ended(job)
            view["result"] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            # Members of a job's result that are null are meant.
            view["result"]["structuredContent"] = result.structured_content
        return view

    async def update(self, context: Context, params: UpdateParams) -> HandlerResult:
        """Take what nobody has asked for, as the extension wants it."""
        await _find(context, params, Scope.READ)
        return {}

    async def cancel(self, context: Context, params: TaskParams) -> HandlerResult:
        """Have a task stopped; one that has ended stays as it is."""
        asked, job = await _find(context, params, Scope.CANCEL)
        try:
            await asked.engine.cancel(job.id, job.tenant)
        except CoatcheckError as error:
            raise _refused(error) from None
        return {}


def new_task_id() -> str:
    """Return an id that nobody can guess; a job's own id could be."""
    return f"task_{secrets.token_hex(16)}"


def declares_tasks(context: Context) -> bool:
    """Tell whether a client says with its request that it knows tasks."""
    declared = context.session.client_capabilities
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and declared is not None
        and EXTENSION in (declared.extensions or {})
    )


def created(job: Job, retry_after_s: int) -> dict[str, Any]:
    """Answer a call with its task."""
    return {"resultType": "task", **_view(job, retry_after_s)}


def _view(job: Job, retry_after_s: int) -> dict[str, Any]:
    view: dict[str, Any] = {
        "taskId": job.public_id,
        "status": _status(job),
        "statusMessage": describe(job),
        "createdAt": to_rfc3339(job.created_at),
        "lastUpdatedAt": to_rfc3339(job.finished_at or job.started_at or job.created_at),
        # How long it is kept is known once it has ended.
        "ttlMs": None if job.expires_at is None else job.expires_at - job.created_at,
    }
    if not job.state.is_terminal:
        view["pollIntervalMs"] = retry_after_s * 1000
    return view


def _status(job: Job) -> str:
    match job.state:
        case State.SUCCEEDED | State.FAILED:
            return "completed"
        case State.CANCELLED:
            return "cancelled"
    return "working"


async def _find(context: Context, params: TaskParams, scope: Scope) -> tuple[McpCaller, Job]:
    if not declares_tasks(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        said = f"declare the extension {EXTENSION} with the request"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, said, needed)
    if not _TASK_ID.fullmatch(params.task_id):
        raise MCPError(INVALID_PARAMS, _NO_SUCH_TASK)
    asked = asked_by(context)
    try:
        job = await asked.find(params.task_id, scope)
    except CoatcheckError as error:
        raise _refused(error) from None
    if job.surface != SURFACE:
        raise MCPError(INVALID_PARAMS, _NO_SUCH_TASK)
    return asked, job


def _refused(error: CoatcheckError) -> MCPError:
    match error:
        case NotFound():
            return MCPError(INVALID_PARAMS, _NO_SUCH_TASK)
        case Unauthorized():
            return MCPError(INVALID_PARAMS, str(error))
    return MCPError(INTERNAL_ERROR, str(error))
