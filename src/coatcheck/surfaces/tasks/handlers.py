"""Handlers of the surface: tasks, command checks and executions."""

from __future__ import annotations

import uuid
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import InvalidInput, NotFound
from coatcheck.http.auth.caller import actor_of, caller_of, tenant_of
from coatcheck.http.request.body import read_json
from coatcheck.http.request.query import read_number
from coatcheck.http.surfaces.submit import find_job, submit_job
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.record import Record
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.tasks.constants import KIND
from coatcheck.surfaces.tasks.execution import CommandExecution
from coatcheck.surfaces.tasks.runners import CommandPolicy, InvalidCommand, read_command_line
from coatcheck.surfaces.tasks.settings import TaskSettings
from coatcheck.surfaces.tasks.task import (
    COLLECTION,
    LAST_PAGE,
    MAX_PAGE,
    PAGE,
    Task,
    all_tasks,
    delete_task,
    get_task,
    name_of,
    page_view,
    put_task,
    read_task,
    task_view,
)
from coatcheck.surfaces.tasks.views import (
    TASK,
    accepted_view,
    execution_view,
    is_pending,
    outcome_of,
    path_of,
    result_view,
    summary_view,
)

SURFACE = "tasks"
# Time beyond the command's own limit in which a waiting caller still gets its outcome.
WAIT_MARGIN_S = 10.0
# Executions in a task's view, with their output, and in lists, without it.
EXECUTIONS_SHOWN, EXECUTIONS_LISTED = 10, 3


class TaskHandlers:
    """The handlers of a server with these settings."""

    def __init__(self, settings: TaskSettings, policy: CommandPolicy) -> None:
        self._settings = settings
        self._policy = policy

    # --- tasks

    async def put(self, request: Request) -> Response:
        """Create or replace a task."""
        engine: Engine = request.app.state.engine
        task = read_task(await read_json(request))
        self._check(task.argv())
        written = await put_task(engine, tenant_of(request), task, actor_of(request))
        # A caller who may only write does not see earlier executions.
        shown = (
            await self._with_executions(request, [written])
            if _may_read(request)
            else [(written, [])]
        )
        return JSONResponse(task_view(*shown[0]))

    async def list_tasks(self, request: Request) -> Response:
        """List the tasks by id: one page, or the first ones as a plain array."""
        query = request.query_params
        engine, tenant = request.app.state.engine, tenant_of(request)
        limit = engine.limits.records_per_collection
        total = await engine.store.records.count_records(
            tenant, COLLECTION, engine.clock.now(), limit
        )
        is_paged = "page" in query or "size" in query
        size = read_number(query, "size", PAGE if is_paged else MAX_PAGE, 1, MAX_PAGE)
        number = read_number(query, "page", 0, 0, LAST_PAGE)
        tasks = await self._page(request, number, size)
        more = {} if (number + 1) * size >= total else {"Link": _next_page(number, size)}
        return JSONResponse(page_view(tasks, number, size, total) if is_paged else tasks, 200, more)

    async def _page(self, request: Request, number: int, size: int) -> list[dict[str, Any]]:
        engine: Engine = request.app.state.engine
        tenant, now = tenant_of(request), engine.clock.now()
        records = await engine.store.records.list_records(
            tenant, COLLECTION, now, limit=size, offset=number * size
        )
        return [task_view(*each) for each in await self._with_executions(request, records)]

    async def get(self, request: Request) -> Response:
        """Return a task with its newest executions."""
        engine: Engine = request.app.state.engine
        task_id, now = request.path_params["task_id"], engine.clock.now()
        record = await get_task(engine.store, tenant_of(request), task_id, now)
        newest = await self._executions(request, task_id, EXECUTIONS_SHOWN)
        jobs = [await engine.get(job.id, job.tenant) for job in newest]
        return JSONResponse(task_view(record, [await self._view(engine, job) for job in jobs]))

    async def delete(self, request: Request) -> Response:
        """Delete a task; its executions stay until their retention ends."""
        engine: Engine = request.app.state.engine
        task_id = request.path_params["task_id"]
        await delete_task(engine, tenant_of(request), task_id, actor_of(request))
        return Response(status_code=204)

    async def search(self, request: Request) -> Response:
        """List the tasks whose name contains a text; 404 if there are none."""
        wanted = request.query_params.get("name", "").strip().casefold()
        if not wanted:
            raise HTTPException(
                400, "the query parameter name is required: give a part of the name"
            )
        engine: Engine = request.app.state.engine
        list_tasks = all_tasks(engine.store, tenant_of(request), engine.clock.now())
        found = [record async for record in list_tasks if wanted in name_of(record).casefold()]
        if not found:
            raise NotFound("no task has a name that contains this text")
        shown = await self._with_executions(request, found[:MAX_PAGE])
        return JSONResponse([task_view(*each) for each in shown])

    async def _with_executions(
        self, request: Request, records: list[Record]
    ) -> list[tuple[Record, list[dict[str, Any]]]]:
        """Return tasks, each with summaries of its newest executions."""
        engine: Engine = request.app.state.engine
        now = engine.clock.now()
        shown = []
        for record in records:
            newest = await self._executions(request, record.key, EXECUTIONS_LISTED)
            views = [
                summary_view(job, now, pending=await self._is_pending(engine, job))
                for job in newest
            ]
            shown.append((record, views))
        return shown

    async def _executions(self, request: Request, task_id: str, limit: int) -> list[Job]:
        """Return the newest executions of a task, oldest first."""
        engine: Engine = request.app.state.engine
        job_filter = JobFilter(
            tenant_of(request), kind=KIND, labels=((TASK, task_id),), limit=limit
        )
        found = [job for job in await engine.list_jobs(job_filter) if job.surface == SURFACE]
        return found[::-1]

    # --- commands

    async def validate(self, request: Request) -> Response:
        """Check a command without running it; return its argv or the problem."""
        body = await read_json(request)
        command = body.get("command") if isinstance(body, dict) else None
        if not isinstance(command, str):
            raise HTTPException(400, 'send {"command": "..."}')
        try:
            argv = read_command_line(command)
            self._check(argv)
        except InvalidInput as error:
            return JSONResponse({"valid": False, "reason": str(error)})
        return JSONResponse({"valid": True, "argv": list(argv)})

    def _check(self, argv: tuple[str, ...]) -> None:
        denial = self._policy.check(argv)
        if denial is not None:
            raise InvalidCommand(denial.message)

    # --- executions

    async def execute(self, request: Request) -> Response:
        """Run a task's command: return 202 at once, or 200 with its outcome."""
        is_async = self._is_async(request)
        engine: Engine = request.app.state.engine
        task_id, tenant = request.path_params["task_id"], tenant_of(request)
        record = await get_task(engine.store, tenant, task_id, engine.clock.now())
        argv = Task.model_validate_json(record.value).argv()
        self._check(argv)
        seconds = self._settings.async_seconds if is_async else self._settings.sync_seconds
        job = await self._submit(request, task_id, argv, seconds)
        if not is_async:
            job = await engine.wait_for_job(job, seconds + WAIT_MARGIN_S)
            if job.state.is_terminal:
                return JSONResponse(result_view(job, await outcome_of(engine, job)))
        pending = await self._is_pending(engine, job)
        return JSONResponse(accepted_view(job, pending=pending), 202, {"Location": path_of(job)})

    async def _submit(
        self, request: Request, task_id: str, argv: tuple[str, ...], seconds: float
    ) -> Job:
        execution = CommandExecution(argv=list(argv), task_id=task_id, seconds=seconds)
        submission = Submission(
            KIND,
            execution.model_dump_json(),
            surface=SURFACE,
            public_id=str(uuid.uuid4()),
            labels={TASK: task_id},
        )
        return await submit_job(request, submission, [task_id, list(argv)])

    def _is_async(self, request: Request) -> bool:
        value = request.query_params.get("async")
        if value is None:
            return self._settings.is_async
        if value not in ("true", "false"):
            raise HTTPException(400, "async must be true or false")
        return value == "true"

    async def execution(self, request: Request) -> Response:
        """Return an execution; 404 with an empty body if it does not exist."""
        engine: Engine = request.app.state.engine
        params = request.path_params
        try:
            job = await find_job(request, params["execution_id"], SURFACE)
        except NotFound:
            return Response(status_code=404)
        if job.labels.get(TASK) != params["task_id"]:
            return Response(status_code=404)
        return JSONResponse(await self._view(engine, job))

    async def _view(self, engine: Engine, job: Job) -> dict[str, Any]:
        pending, outcome = await self._is_pending(engine, job), await outcome_of(engine, job)
        return execution_view(job, outcome, engine.clock.now(), pending=pending)

    async def _is_pending(self, engine: Engine, job: Job) -> bool:
        in_cluster = self._settings.runner == "kubernetes"
        return await is_pending(engine, job, in_cluster=in_cluster)


def _may_read(request: Request) -> bool:
    caller = caller_of(request)
    kinds = caller.kinds_for(Scope.READ)
    return caller.may(Scope.READ) and (kinds is None or KIND in kinds)


def _next_page(number: int, size: int) -> str:
    return f'</api/tasks?page={number + 1}&size={size}>; rel="next"'
