"""Task definitions: what can be run, by name. They are records, each tenant's apart."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field

from coatcheck.clock import to_rfc3339
from coatcheck.engine.tenant_bounds import put_bounded
from coatcheck.errors import NotFound
from coatcheck.http.fields import Fields, check_fields
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


async def put_task(store: Store, tenant: str, task: Task, now: int, limit: int) -> Record:
    """Write a task, over the one that has its id; raises QuotaExceeded if it is one too many."""
    record = Record(tenant, COLLECTION, task.id, task.model_dump_json(), 0, now)
    return await put_bounded(store, record, limit)


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
