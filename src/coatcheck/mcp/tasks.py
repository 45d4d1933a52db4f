"""Tasks: the extension `io.modelcontextprotocol/tasks`, over jobs.

A tool call returns a task if the client declares the extension with the call. The client polls it
with `tasks/get`; the finished task contains the result of the call. `tasks/cancel` cancels it. Jobs
request no input from clients, so `tasks/update` does nothing.

The status of a task follows from the state of its job:

    queued, running, waiting    working
    succeeded                   completed
    failed                      completed, with a result that has isError
    cancelled                   cancelled

The status `failed` is for calls that could not start; those are rejected before there is a job.
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
from coatcheck.mcp.constants import SURFACE
from coatcheck.mcp.request import Context, McpRequest, mcp_request
from coatcheck.mcp.views import describe, finished_result
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.state import State

EXTENSION = "io.modelcontextprotocol/tasks"
_TASK_ID = re.compile(r"task_[0-9a-f]{32}")
_UNKNOWN_TASK = "unknown task"


class TaskParams(RequestParams):
    """The parameters that name a task."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


class Tasks:
    """The methods of the extension."""

    async def get(self, context: Context, params: TaskParams) -> HandlerResult:
        """Return a task's status, with the result if it is finished."""
        request, job = await _find(context, params, Scope.READ)
        view = _view(job, request.engine.retry_after(job))
        if view["status"] == "completed":
            result = finished_result(job)
            view["result"] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            # Keep null members of the job's result.
            view["result"]["structuredContent"] = result.structured_content
        return view

    async def update(self, context: Context, params: UpdateParams) -> HandlerResult:
        """Accept and ignore input, as the extension requires."""
        await _find(context, params, Scope.READ)
        return {}

    async def cancel(self, context: Context, params: TaskParams) -> HandlerResult:
        """Cancel a task; a finished one does not change."""
        request, job = await _find(context, params, Scope.CANCEL)
        try:
            await request.engine.cancel(job.id, job.tenant)
        except CoatcheckError as error:
            raise _mcp_error(error) from None
        return {}


def new_task_id() -> str:
    """Return an unguessable id; a job's own id can be guessed."""
    return f"task_{secrets.token_hex(16)}"


def declares_tasks(context: Context) -> bool:
    """Tell whether a client declares the tasks extension with its request."""
    declared = context.session.client_capabilities
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and declared is not None
        and EXTENSION in (declared.extensions or {})
    )


def created_task(job: Job, retry_after_s: int) -> dict[str, Any]:
    """Return the response to a call that created a task."""
    return {"resultType": "task", **_view(job, retry_after_s)}


def _view(job: Job, retry_after_s: int) -> dict[str, Any]:
    view: dict[str, Any] = {
        "taskId": job.public_id,
        "status": _status(job),
        "statusMessage": describe(job),
        "createdAt": to_rfc3339(job.created_at),
        "lastUpdatedAt": to_rfc3339(job.finished_at or job.started_at or job.created_at),
        # The retention is known once the job is finished.
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


async def _find(context: Context, params: TaskParams, scope: Scope) -> tuple[McpRequest, Job]:
    if not declares_tasks(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        message = f"declare the extension {EXTENSION} with the request"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)
    if not _TASK_ID.fullmatch(params.task_id):
        raise MCPError(INVALID_PARAMS, _UNKNOWN_TASK)
    request = mcp_request(context)
    try:
        job = await request.find(params.task_id, scope)
    except CoatcheckError as error:
        raise _mcp_error(error) from None
    if job.surface != SURFACE:
        raise MCPError(INVALID_PARAMS, _UNKNOWN_TASK)
    return request, job


def _mcp_error(error: CoatcheckError) -> MCPError:
    match error:
        case NotFound():
            return MCPError(INVALID_PARAMS, _UNKNOWN_TASK)
        case Unauthorized():
            return MCPError(INVALID_PARAMS, str(error))
    return MCPError(INTERNAL_ERROR, str(error))
