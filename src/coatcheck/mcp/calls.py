"""What a call of a tool does."""

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
from coatcheck.mcp.caller import Context, McpCaller, asked_by
from coatcheck.mcp.names import SURFACE
from coatcheck.mcp.tasks import created, declares_tasks, new_task_id
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
from coatcheck.mcp.views import ended, going_on, refused, status
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.kind import pointer


class ToolCalls:
    """The tools of a server. A call that needs no task waits for its job, this long at most."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._made: dict[str, KindTool] | None = None

    async def tools(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List what the caller may call."""
        asked = asked_by(context)
        kinds = [
            tool.listed()
            for tool in self._tools(asked).values()
            if asked.may(Scope.WRITE, tool.kind.name)
        ]
        others = [tool.listed() for tool in JOB_TOOLS.values() if asked.may_for_some(tool.scope)]
        return types.ListToolsResult(tools=[*kinds, *others])

    async def call(self, context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        """Call a tool. What stands against it is a result too: the assistant can learn from it."""
        asked = asked_by(context)
        arguments = params.arguments or {}
        job_tool = JOB_TOOLS.get(params.name)
        if job_tool is not None and asked.may_for_some(job_tool.scope):
            return await self._come_back(asked, job_tool, arguments)
        tool = self._tools(asked).get(params.name)
        if tool is None or not asked.may(Scope.WRITE, tool.kind.name):
            raise MCPError(INVALID_PARAMS, "there is no such tool")
        try:
            job = await _submit(asked, tool, arguments)
            if declares_tasks(context) and asked.may(Scope.READ, job.kind):
                return created(job, asked.engine.retry_after(job))
            return _answer(asked, await _follow(asked, job, self._wait_s))
        except CoatcheckError as error:
            return refused(error, below="" if tool.wraps else f"/{INPUT}")

    async def _come_back(
        self, asked: McpCaller, tool: JobTool, arguments: dict[str, Any]
    ) -> types.CallToolResult:
        try:
            named = _read(tool, arguments)
            job = await asked.find(named.job_id, tool.scope)
            match tool:
                case _ if tool is STATUS:
                    return status(job)
                case _ if tool is CANCEL:
                    return status(await asked.engine.cancel(job.id, job.tenant))
            assert isinstance(named, ResultArguments), f"{RESULT.name} takes them"
            return _answer(asked, await _follow(asked, job, named.wait_s))
        except CoatcheckError as error:
            return refused(error)

    def _tools(self, asked: McpCaller) -> dict[str, KindTool]:
        if self._made is None:
            self._made = tools_of(asked.engine.kinds)
        return self._made


async def _submit(asked: McpCaller, tool: KindTool, arguments: dict[str, Any]) -> Job:
    value = tool.input_of(arguments)
    submission = bind_submission(
        asked.request,
        Submission(tool.kind.name, dumps(value), surface=SURFACE, public_id=new_task_id()),
    )
    once = asked.once(tool.kind.name, value)
    if once is None:
        return await asked.engine.submit(submission)
    return (await asked.engine.submit_idempotent(submission, once)).jobs[0]


async def _follow(asked: McpCaller, job: Job, wait_s: float) -> Job:
    """Return a job when it has ended, or as it stands when the time runs out; whoever asked to is
    told of its progress meanwhile.
    """
    if not asked.wants_progress:
        return await asked.engine.wait_for_job(job, wait_s)
    clock = asyncio.get_running_loop().time
    until, told = clock() + wait_s, float("-inf")
    while True:
        progress = job.progress
        # It must only ever rise; a job that is tried again begins anew.
        if progress is not None and progress.done > told:
            told = progress.done
            await asked.context.session.report_progress(told, progress.total, progress.message)
        if job.state.is_terminal or clock() >= until:
            return job
        moved = await asked.engine.wait_for_event(job, job.last_event, until - clock())
        if moved is None:
            return job
        job = moved


def _answer(asked: McpCaller, job: Job) -> types.CallToolResult:
    if job.state.is_terminal:
        return ended(job)
    return going_on(
        job, [tool.name for tool in (RESULT, STATUS, CANCEL) if asked.may(tool.scope, job.kind)]
    )


def _read(tool: JobTool, arguments: dict[str, Any]) -> Any:
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(each["loc"]), each["msg"]) for each in found]
        words = "; ".join(f"{at}: {what}" for at, what in problems)
        raise InvalidPayload(f"{tool.name} cannot take this: {words}", problems) from None
