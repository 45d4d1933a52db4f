"""The audit trail: who created, changed or deleted keys, tenants, webhooks, schedules and tasks.

An entry names what was done and to which resource, never a secret, an input or an address. Its id
is a ULID, which says when. It belongs to the tenant that owns the resource, so an administrator of
that tenant sees it whoever acted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from coatcheck.ids import ulid_time

# Actors without a key.
ANONYMOUS = "anonymous"  # a server without keys
CLI = "cli"  # the command line, on the database itself
APP = "app"  # an app that declares schedules, when it starts
ACTORS = (ANONYMOUS, CLI, APP)


class Resource(StrEnum):
    """Resources whose changes are recorded."""

    KEY = "key"
    TENANT = "tenant"
    WEBHOOK = "webhook"
    SCHEDULE = "schedule"
    TASK = "task"


class Action(StrEnum):
    """Changes that are recorded: the resource, and what was done to it."""

    CREATE_KEY = "key.create"
    REVOKE_KEY = "key.revoke"
    CREATE_TENANT = "tenant.create"
    UPDATE_TENANT = "tenant.update"
    CREATE_WEBHOOK = "webhook.create"
    UPDATE_WEBHOOK = "webhook.update"
    DELETE_WEBHOOK = "webhook.delete"
    ENABLE_WEBHOOK = "webhook.enable"
    DISABLE_WEBHOOK = "webhook.disable"
    ROTATE_WEBHOOK = "webhook.rotate"
    CREATE_SCHEDULE = "schedule.create"
    UPDATE_SCHEDULE = "schedule.update"
    DELETE_SCHEDULE = "schedule.delete"
    PAUSE_SCHEDULE = "schedule.pause"
    RESUME_SCHEDULE = "schedule.resume"
    CREATE_TASK = "task.create"
    UPDATE_TASK = "task.update"
    DELETE_TASK = "task.delete"

    @property
    def resource(self) -> Resource:
        """The kind of resource that is changed."""
        return Resource(self.partition(".")[0])


class AuditEntry(NamedTuple):
    """One change, by whom and to which resource."""

    tenant: str
    id: str
    actor: str
    action: Action
    resource: Resource
    resource_id: str
    detail: str = "{}"

    @property
    def at(self) -> int:
        """The time of the change, in milliseconds since the epoch."""
        return ulid_time(self.id)


def audited(
    id_: str, actor: str, action: Action, resource_id: str, tenant: str, **detail: Any
) -> AuditEntry:
    """Return an entry; `detail` is shown as JSON and must hold nothing secret."""
    said = json.dumps(detail, separators=(",", ":"))
    return AuditEntry(tenant, id_, actor, action, action.resource, resource_id, said)


def changed_fields(before: Any, after: Any, names: Iterable[str]) -> list[str]:
    """Return the names of the attributes that differ."""
    return [name for name in names if getattr(before, name) != getattr(after, name)]
