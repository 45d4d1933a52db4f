"""What the surface answers: tasks kept, commands checked, executions begun and shown."""

from __future__ import annotations

import uuid
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import Submission
from coatcheck.errors import InvalidInput, NotFound
from coatcheck.http.body import read_json
from coatcheck.http.caller import tenant_of
from coatcheck.http.surface_calls import find_for, submit_for
from coatcheck.model.job import Job
from coatcheck.surfaces.tasks.execution import Execution
from coatcheck.surfaces.tasks.running import CommandPolicy, InvalidCommand, read_command_line
from coatcheck.surfaces.tasks.settings import TaskSettings
from coatcheck.surfaces.tasks.showing import (
    TASK,
    accepted_view,
    execution_view,
    outcome_of,
    path_of,
    result_view,
)
from coatcheck.surfaces.tasks.task import (
    COLLECTION,
    Task,
    all_tasks,
    get_task,
    put_task,
    read_task,
    task_view,
)
from coatcheck.surfaces.tasks.words import KIND

SURFACE = "tasks"
# Who waits is told of the end of a command that took all of its time, too.
PATIENCE_S = 10.0


class TaskCalls:
    """The calls of a server with these settings."""

    def __init__(self, settings: TaskSettings, policy: CommandPolicy) -> None:
        self._settings = settings
        self._policy = policy

    # --- tasks

    async def put(self, request: Request) -> Response:
        """Write a task, over the one that has its id: 201 where there was none."""
        engine: Engine = request.app.state.engine
        task = read_task(await read_json(request))
        self._check(task.argv())
        now, limit = engine.clock.now(), engine.limits.records_per_collection
        written = await put_task(engine.store, tenant_of(request), task, now, limit)
        return JSONResponse(task_view(written), 201 if written.version == 1 else 200)

    async def every(self, request: Request) -> Response:
        """List the tasks, by their ids."""
        return JSONResponse(await self._tasks(request))

    async def get(self, request: Request) -> Response:
        """Show a task."""
        engine: Engine = request.app.state.engine
        task_id, now = request.path_params["task_id"], engine.clock.now()
        return JSONResponse(
            task_view(await get_task(engine.store, tenant_of(request), task_id, now))
        )

    async def delete(self, request: Request) -> Response:
        """Delete a task; its executions stay as long as they are kept."""
        engine: Engine = request.app.state.engine
        task_id = request.path_params["task_id"]
        if not await engine.store.delete_record(tenant_of(request), COLLECTION, task_id):
            raise NotFound(f"there is no task {task_id!r}")
        return Response(status_code=204)

    async def search(self, request: Request) -> Response:
        """List the tasks whose name holds a text; 404 where there are none."""
        wanted = request.query_params.get("name", "").strip().casefold()
        if not wanted:
            raise HTTPException(400, "which name? Give a part of it: ?name=...")
        found = [each for each in await self._tasks(request) if wanted in each["name"].casefold()]
        if not found:
            raise NotFound("no task has a name like that")
        return JSONResponse(found)

    async def _tasks(self, request: Request) -> list[dict[str, Any]]:
        engine: Engine = request.app.state.engine
        every = all_tasks(engine.store, tenant_of(request), engine.clock.now())
        return [task_view(record) async for record in every]

    # --- commands

    async def validate(self, request: Request) -> Response:
        """Say whether a command could be run, and what of it; nothing is."""
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
        refusal = self._policy.check(argv)
        if refusal is not None:
            raise InvalidCommand(refusal.message)

    # --- executions

    async def execute(self, request: Request) -> Response:
        """Run a task's command: 202 at once, or 200 with how it went."""
        is_async = self._is_async(request)
        engine: Engine = request.app.state.engine
        task_id, tenant = request.path_params["task_id"], tenant_of(request)
        record = await get_task(engine.store, tenant, task_id, engine.clock.now())
        argv = Task.model_validate_json(record.value).argv()
        self._check(argv)
        seconds = self._settings.async_seconds if is_async else self._settings.sync_seconds
        job = await self._submit(request, task_id, argv, seconds)
        if not is_async:
            job = await engine.wait_on(job, seconds + PATIENCE_S)
            if job.state.is_terminal:
                return JSONResponse(result_view(job, await outcome_of(engine, job)))
        return JSONResponse(accepted_view(job), 202, {"Location": path_of(job)})

    async def _submit(
        self, request: Request, task_id: str, argv: tuple[str, ...], seconds: float
    ) -> Job:
        execution = Execution(argv=list(argv), task_id=task_id, seconds=seconds)
        asked = Submission(
            KIND,
            execution.model_dump_json(),
            surface=SURFACE,
            public_id=str(uuid.uuid4()),
            labels={TASK: task_id},
        )
        return await submit_for(request, asked, [task_id, list(argv)])

    def _is_async(self, request: Request) -> bool:
        said = request.query_params.get("async")
        if said is None:
            return self._settings.is_async
        if said not in ("true", "false"):
            raise HTTPException(400, "async is true or false")
        return said == "true"

    async def execution(self, request: Request) -> Response:
        """Show an execution; 404 and no word where there is none."""
        engine: Engine = request.app.state.engine
        named = request.path_params
        try:
            job = await find_for(request, named["execution_id"], SURFACE)
        except NotFound:
            return Response(status_code=404)
        if job.labels.get(TASK) != named["task_id"]:
            return Response(status_code=404)
        now = engine.clock.now()
        return JSONResponse(execution_view(job, await outcome_of(engine, job), now))
