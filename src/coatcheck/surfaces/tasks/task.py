"""Task definitions: named commands, stored as records of a tenant."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.tenant_bounds import put_bounded
from coatcheck.errors import NotFound
from coatcheck.http.request.models import RequestModel, validate_model
from coatcheck.model.audit import Action, audited, changed_fields
from coatcheck.model.record import Record
from coatcheck.store.base import Store
from coatcheck.surfaces.tasks.runners import InvalidCommand, check_arguments, read_command_line

COLLECTION = "tasks"
# The largest page of tasks is a megabyte and a half.
MAX_TASK_BYTES = 16 * 1024
PAGE, MAX_PAGE = 10, 100
LAST_PAGE = 100_000
_READ_BATCH = 200
# A task's id is part of paths, and of labels on its executions.
ID = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"


class Task(RequestModel):
    """A named command."""

    id: str = Field(default_factory=lambda: f"task-{secrets.token_hex(4)}", pattern=ID)
    name: str = Field(min_length=1, max_length=200)
    owner: str = Field(default="", max_length=200)
    # A typed command line, or a program and its arguments; `args` are appended to either.
    command: str | list[str]
    args: list[str] = Field(default_factory=list)

    def argv(self) -> tuple[str, ...]:
        """Return the argv to run; raise InvalidCommand if it is invalid."""
        first = (
            read_command_line(self.command)
            if isinstance(self.command, str)
            else tuple(self.command)
        )
        argv = (*first, *self.args)
        check_arguments(argv)
        return argv


def read_task(body: Any) -> Task:
    """Parse a task; raise InvalidPayload with a pointer to each problem."""
    return validate_model(body, Task, "a task")


def task_view(record: Record, executions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a task and its executions as JSON."""
    task = Task.model_validate_json(record.value)
    return {
        **task.model_dump(),
        "updatedAt": to_rfc3339(record.updated_at),
        "taskExecutions": executions,
    }


def name_of(record: Record) -> str:
    """Return the name of a task."""
    return Task.model_validate_json(record.value).name


def page_view(tasks: list[dict[str, Any]], number: int, size: int, total: int) -> dict[str, Any]:
    """Return a page of tasks as JSON, in Spring's format."""
    pages = -(-total // size)
    return {
        "content": tasks,
        "pageable": {"pageNumber": number, "pageSize": size},
        "totalElements": total,
        "totalPages": pages,
        "first": number == 0,
        "last": number + 1 >= pages,
    }


async def put_task(engine: Engine, tenant: str, task: Task, actor: str) -> Record:
    """Create or replace a task; raise InvalidCommand or QuotaExceeded."""
    store, now = engine.store, engine.clock.now()
    value = task.model_dump_json()
    if len(value.encode()) > MAX_TASK_BYTES:
        raise InvalidCommand(f"the task is larger than {MAX_TASK_BYTES} bytes")
    existing = await store.records.get_record(tenant, COLLECTION, task.id, now)
    entry = audited(engine.new_id(), actor, Action.CREATE_TASK, task.id, tenant)
    if existing is not None:
        before = Task.model_validate_json(existing.value)
        changed = changed_fields(before, task, Task.model_fields)
        entry = audited(
            engine.new_id(), actor, Action.UPDATE_TASK, task.id, tenant, changed=changed
        )
    record = Record(tenant, COLLECTION, task.id, value, 0, now)
    return await put_bounded(store, record, engine.limits.records_per_collection, audit=entry)


async def delete_task(engine: Engine, tenant: str, task_id: str, actor: str) -> None:
    """Delete a task; raise NotFound if it does not exist."""
    entry = audited(engine.new_id(), actor, Action.DELETE_TASK, task_id, tenant)
    if not await engine.store.records.delete_record(tenant, COLLECTION, task_id, audit=entry):
        raise NotFound(f"there is no task {task_id!r}")


async def get_task(store: Store, tenant: str, task_id: str, now: int) -> Record:
    """Return a task; raise NotFound if it does not exist."""
    found = await store.records.get_record(tenant, COLLECTION, task_id, now)
    if found is None:
        raise NotFound(f"there is no task {task_id!r}")
    return found


async def all_tasks(store: Store, tenant: str, now: int) -> AsyncIterator[Record]:
    """Iterate over a tenant's tasks, by id."""
    after = ""
    while page := await store.records.list_records(tenant, COLLECTION, now, after, _READ_BATCH):
        for record in page:
            yield record
        after = page[-1].key
