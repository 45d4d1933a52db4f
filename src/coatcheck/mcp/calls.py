"""The methods `tools/list` and `tools/call`."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import CoatcheckError, InvalidPayload
from coatcheck.http.jobs.views import dumps
from coatcheck.http.surfaces.submit import bind_submission
from coatcheck.mcp.constants import SURFACE
from coatcheck.mcp.request import Context, McpRequest, mcp_request
from coatcheck.mcp.tasks import created_task, declares_tasks, new_task_id
from coatcheck.mcp.tools import (
    CANCEL,
    INPUT,
    JOB_TOOLS,
    RESULT,
    STATUS,
    JobTool,
    KindTool,
    ResultArguments,
    tools_of,
)
from coatcheck.mcp.views import error_result, finished_result, status_result, unfinished_result
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.kind import pointer


class ToolCalls:
    """The tools of a server. A call without a task waits up to `wait_s` for its job."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._kind_tools: dict[str, KindTool] | None = None

    async def tools(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools that the caller may call."""
        request = mcp_request(context)
        kinds = [
            tool.definition()
            for tool in self._tools(request).values()
            if request.may(Scope.WRITE, tool.kind.name)
        ]
        others = [tool.definition() for tool in JOB_TOOLS.values() if request.has_scope(tool.scope)]
        return types.ListToolsResult(tools=[*kinds, *others])

    async def call(self, context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        """Call a tool. Errors are results too, so that the model can correct the call."""
        request = mcp_request(context)
        arguments = params.arguments or {}
        job_tool = JOB_TOOLS.get(params.name)
        if job_tool is not None and request.has_scope(job_tool.scope):
            return await self._call_job_tool(request, job_tool, arguments)
        tool = self._tools(request).get(params.name)
        if tool is None or not request.may(Scope.WRITE, tool.kind.name):
            raise MCPError(INVALID_PARAMS, "unknown tool")
        try:
            job = await _submit(request, tool, arguments)
            if declares_tasks(context) and request.may(Scope.READ, job.kind):
                return created_task(job, request.engine.retry_after(job))
            return _result_of(request, await _follow(request, job, self._wait_s))
        except CoatcheckError as error:
            return error_result(error, below="" if tool.is_wrapped else f"/{INPUT}")

    async def _call_job_tool(
        self, request: McpRequest, tool: JobTool, arguments: dict[str, Any]
    ) -> types.CallToolResult:
        try:
            arguments_ = _read(tool, arguments)
            job = await request.find(arguments_.job_id, tool.scope)
            match tool:
                case _ if tool is STATUS:
                    return status_result(job)
                case _ if tool is CANCEL:
                    return status_result(await request.engine.cancel(job.id, job.tenant))
            assert isinstance(arguments_, ResultArguments), f"{RESULT.name} has these arguments"
            return _result_of(request, await _follow(request, job, arguments_.wait_s))
        except CoatcheckError as error:
            return error_result(error)

    def _tools(self, request: McpRequest) -> dict[str, KindTool]:
        if self._kind_tools is None:
            self._kind_tools = tools_of(request.engine.kinds)
        return self._kind_tools


async def _submit(request: McpRequest, tool: KindTool, arguments: dict[str, Any]) -> Job:
    value = tool.input_of(arguments)
    submission = bind_submission(
        request.http,
        Submission(tool.kind.name, dumps(value), surface=SURFACE, public_id=new_task_id()),
    )
    key = request.idempotency_key(tool.kind.name, value)
    if key is None:
        return await request.engine.submit(submission)
    return (await request.engine.submit_idempotent(submission, key)).jobs[0]


async def _follow(request: McpRequest, job: Job, wait_s: float) -> Job:
    """Return a job once it is finished, or its current state after the timeout.

    Reports progress meanwhile if the client requested it.
    """
    if not request.wants_progress:
        return await request.engine.wait_for_job(job, wait_s)
    clock = asyncio.get_running_loop().time
    until, reported = clock() + wait_s, float("-inf")
    while True:
        progress = job.progress
        # Progress must never decrease, but a retry starts again.
        if progress is not None and progress.done > reported:
            reported = progress.done
            await request.context.session.report_progress(
                reported, progress.total, progress.message
            )
        if job.state.is_terminal or clock() >= until:
            return job
        changed = await request.engine.wait_for_event(job, job.last_event, until - clock())
        if changed is None:
            return job
        job = changed


def _result_of(request: McpRequest, job: Job) -> types.CallToolResult:
    if job.state.is_terminal:
        return finished_result(job)
    return unfinished_result(
        job, [tool.name for tool in (RESULT, STATUS, CANCEL) if request.may(tool.scope, job.kind)]
    )


def _read(tool: JobTool, arguments: dict[str, Any]) -> Any:
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(each["loc"]), each["msg"]) for each in found]
        details = "; ".join(f"{at}: {detail}" for at, detail in problems)
        raise InvalidPayload(f"invalid arguments for {tool.name}: {details}", problems) from None
