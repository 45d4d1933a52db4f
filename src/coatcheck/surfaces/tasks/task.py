"""Task definitions: what can be run, by name. They are records, each tenant's apart."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field

from coatcheck.clock import to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.fields import Fields, check_fields
from coatcheck.model.audit import Action, audited, changed_fields
from coatcheck.model.record import Record
from coatcheck.store.base import Store
from coatcheck.surfaces.tasks.running import check_arguments, read_command_line

COLLECTION = "tasks"
PAGE = 200
# A task's id is part of paths, and of labels on its executions.
ID = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"


class Task(Fields):
    """A command under a name."""

    id: str = Field(default_factory=lambda: f"task-{secrets.token_hex(4)}", pattern=ID)
    name: str = Field(min_length=1, max_length=200)
    owner: str = Field(default="", max_length=200)
    # A line that a person typed, or a program and its arguments; `args` are added to either.
    command: str | list[str]
    args: list[str] = Field(default_factory=list)

    def argv(self) -> tuple[str, ...]:
        """Return what is run; raises InvalidCommand."""
        first = (
            read_command_line(self.command)
            if isinstance(self.command, str)
            else tuple(self.command)
        )
        argv = (*first, *self.args)
        check_arguments(argv)
        return argv


def read_task(body: Any) -> Task:
    """Read a task; raises InvalidPayload with a pointer to each problem."""
    return check_fields(body, Task, "a task")


def task_view(record: Record) -> dict[str, Any]:
    """Write a task."""
    task = Task.model_validate_json(record.value)
    return {**task.model_dump(), "updatedAt": to_rfc3339(record.updated_at)}


async def put_task(engine: Engine, tenant: str, task: Task, actor: str) -> Record:
    """Write a task, over the one that has its id."""
    store, now = engine.store, engine.clock.now()
    there = await store.get_record(tenant, COLLECTION, task.id, now)
    entry = audited(engine.new_id(), actor, Action.CREATE_TASK, task.id, tenant)
    if there is not None:
        before = Task.model_validate_json(there.value)
        changed = changed_fields(before, task, Task.model_fields)
        entry = audited(
            engine.new_id(), actor, Action.UPDATE_TASK, task.id, tenant, changed=changed
        )
    written = await store.put_record(
        Record(tenant, COLLECTION, task.id, task.model_dump_json(), 0, now), audit=entry
    )
    assert written is not None, "no version was asked for"
    return written


async def delete_task(engine: Engine, tenant: str, task_id: str, actor: str) -> None:
    """Delete a task; raises NotFound."""
    entry = audited(engine.new_id(), actor, Action.DELETE_TASK, task_id, tenant)
    if not await engine.store.delete_record(tenant, COLLECTION, task_id, audit=entry):
        raise NotFound(f"there is no task {task_id!r}")


async def get_task(store: Store, tenant: str, task_id: str, now: int) -> Record:
    """Read a task; raises NotFound."""
    found = await store.get_record(tenant, COLLECTION, task_id, now)
    if found is None:
        raise NotFound(f"there is no task {task_id!r}")
    return found


async def all_tasks(store: Store, tenant: str, now: int) -> AsyncIterator[Record]:
    """Iterate over a tenant's tasks, by their ids."""
    after = ""
    while page := await store.list_records(tenant, COLLECTION, now, after, PAGE):
        for record in page:
            yield record
        after = page[-1].key
