"""The surface's endpoints."""

from __future__ import annotations

from typing import Any

from coatcheck.http.endpoint import (
    IDEMPOTENCY_KEY,
    JSON,
    TRACEPARENT,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Handler,
    Parameter,
    Schema,
)
from coatcheck.surfaces.tasks.constants import KIND
from coatcheck.surfaces.tasks.handlers import TaskHandlers
from coatcheck.surfaces.tasks.task import LAST_PAGE, MAX_PAGE

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}


def _object(required: str, **optional: Schema) -> dict[str, Schema]:
    properties: dict[str, Any] = {name: {} for name in required.split()}
    schema = {"type": "object", "required": list(properties)}
    return {JSON: {**schema, "properties": {**properties, **optional}}}


_TASK = _object("id name owner command args updatedAt taskExecutions")
_TASKS = {JSON: {"type": "array", "items": _TASK[JSON]}}
_PAGE = _object("content pageable totalElements totalPages first last")
_TASKS_OR_PAGE = {JSON: {"oneOf": [_TASKS[JSON], _PAGE[JSON]]}}
_COMMAND_LINE: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_NEW_TASK: dict[str, dict[str, Any]] = {
    JSON: {
        "type": "object",
        "required": ["name", "command"],
        "properties": {
            "id": _TEXT,
            "name": _TEXT,
            "owner": _TEXT,
            "command": _COMMAND_LINE,
            "args": {"type": "array", "items": _TEXT},
        },
    }
}
_COMMAND = {
    JSON: {
        "type": "object",
        "required": ["command"],
        "properties": {"command": _COMMAND_LINE},
    }
}
_RESULT = _object("taskId executionId exitCode stdout stderr durationMs timestamp")
_ACCEPTED = _object("taskId executionId status jobName startedAt links")
_EXECUTION = _object("taskId executionId status jobName startedAt", elapsedMs=_NUMBER)
_ERROR = _object("timestamp status error message path correlationId")
_ASYNC = Parameter(
    "async",
    "`true` responds at once, `false` waits for the command; the default is `EXEC_ASYNC`.",
    {"enum": ["true", "false"]},
)
_NAME = Parameter("name", "A part of the name.", {**_TEXT, "minLength": 1}, required=True)
_WRITES = (408, 413, 415, 422, 429)
_PAGING = (
    Parameter(
        "page",
        "The page number, from 0. With this or `size`, the response is a page.",
        {"type": "integer", "minimum": 0, "maximum": LAST_PAGE},
    ),
    Parameter(
        "size",
        "Tasks per page (default 10).",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
    ),
)


def endpoints_for(handlers: TaskHandlers) -> list[Endpoint]:
    """List the endpoints of a server."""

    def endpoint(
        method: str, path: str, handler: Handler, name: str, summary: str, **more: Any
    ) -> Endpoint:
        answers = {
            status: EndpointResponse(*fields) for status, fields in more.pop("answers").items()
        }
        return Endpoint(
            *(method, path, handler, name, summary, "tasks", answers),
            kind=KIND,
            error_media=_ERROR,
            **more,
        )

    return [
        endpoint(
            "PUT",
            "/api/tasks",
            handlers.put,
            "putTask",
            "Create or replace a task",
            answers={200: ("The stored task.", _TASK)},
            body=EndpointBody("The task.", _NEW_TASK),
            error_statuses=(*_WRITES, 409),
        ),
        endpoint(
            "GET",
            "/api/tasks",
            handlers.list_tasks,
            "listTasks",
            "List tasks",
            answers={200: ("The first 100 as an array, or a page.", _TASKS_OR_PAGE)},
            parameters=_PAGING,
        ),
        endpoint(
            "GET",
            "/api/tasks/search",
            handlers.search,
            "searchTasks",
            "Search tasks by name",
            answers={200: ("The matching tasks.", _TASKS)},
            parameters=(_NAME,),
        ),
        endpoint(
            "GET",
            "/api/tasks/{task_id}",
            handlers.get,
            "getTask",
            "Get a task",
            answers={200: ("The task.", _TASK)},
        ),
        endpoint(
            "DELETE",
            "/api/tasks/{task_id}",
            handlers.delete,
            "deleteTask",
            "Delete a task",
            answers={204: ("The task is deleted.", {})},
        ),
        endpoint(
            "PUT",
            "/api/tasks/{task_id}/executions",
            handlers.execute,
            "executeTask",
            "Run a task",
            answers={
                200: ("The outcome of the command.", _RESULT),
                202: ("The command will be run.", _ACCEPTED, ("Location",)),
            },
            parameters=(_ASYNC, IDEMPOTENCY_KEY, TRACEPARENT),
            error_statuses=(409, 410, 422, 429),
        ),
        endpoint(
            "GET",
            "/api/tasks/{task_id}/executions/{execution_id}",
            handlers.execution,
            "getExecution",
            "Get an execution",
            answers={
                200: (
                    "The status of the execution, and its outcome once it has finished.",
                    _EXECUTION,
                )
            },
        ),
        endpoint(
            "POST",
            "/api/validation/command",
            handlers.validate,
            "validateCommand",
            "Check a command",
            answers={200: ("Whether the command may be run.", _object("valid"))},
            body=EndpointBody("The command.", _COMMAND),
            error_statuses=_WRITES,
        ),
    ]
