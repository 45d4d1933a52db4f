"""Tenants, their quotas, and their API keys with scopes.

A key is `ck_<id>_<secret>`. The id names it in lists and logs. Only the holder of the key knows the
secret: the store keeps an HMAC of the whole key.

`admin` includes every scope. `jobs:read:render` is `jobs:read` for jobs of the kind `render` only.
The tenant `default` belongs to the operator: `admin` there means the whole server. Only its keys
can have `jobs:work`, because workers run jobs of every tenant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.names import NAME_RULE, is_name

OPERATOR = DEFAULT_TENANT
MOST_SCOPES = 50
LONGEST_NOTE = 200
LARGEST_QUOTA = 2**53
KEY = re.compile(r"ck_([0-9a-f]{12})_([0-9a-f]{64})")


class Scope(StrEnum):
    """A permission of a key."""

    READ = "jobs:read"
    WRITE = "jobs:write"
    CANCEL = "jobs:cancel"
    WORK = "jobs:work"
    ADMIN = "admin"


class TenantStatus(StrEnum):
    """Whether a tenant's keys are accepted."""

    ACTIVE = "active"
    UNPAID = "unpaid"
    SUSPENDED = "suspended"


class Quotas(NamedTuple):
    """The limits of a tenant; None means no limit."""

    jobs_waiting: int | None = None  # queued, delayed or waiting
    jobs_running: int | None = None
    submits_per_minute: int | None = None
    payload_bytes: int | None = None  # of inputs submitted within a minute
    stored_bytes: int | None = None  # inputs, results and files


class Load(NamedTuple):
    """The usage of a tenant's quotas; 0 for a quota without a limit, which is not counted."""

    jobs_waiting: int = 0
    jobs_running: int = 0
    submits_per_minute: int = 0
    payload_bytes: int = 0
    stored_bytes: int = 0


class Tenant(NamedTuple):
    """An owner of jobs; no tenant sees another's."""

    name: str
    status: TenantStatus = TenantStatus.ACTIVE
    quotas: Quotas = Quotas()
    created_at: int = 0
    updated_at: int = 0


class ApiKey(NamedTuple):
    """A key, without its secret."""

    id: str
    tenant: str
    digest: str  # HMAC-SHA256 of the whole key, as hexadecimal digits
    scopes: tuple[str, ...]
    note: str  # its purpose, as its creator wrote it
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None  # accurate to about a minute


class KeyUse(NamedTuple):
    """The latest use of a key."""

    tenant: str
    id: str
    at: int


Grants = Mapping[Scope, frozenset[str] | None]


def read_grants(scopes: Iterable[str]) -> dict[Scope, frozenset[str] | None]:
    """Return the kinds of each scope, None for all kinds; raises ValueError for a bad scope."""
    found: dict[Scope, frozenset[str] | None] = {}
    for text in scopes:
        scope, kind = _split(text)
        there = found.get(scope, frozenset())
        found[scope] = None if kind is None or there is None else there | {kind}
    return found


def _split(text: str) -> tuple[Scope, str | None]:
    for scope in Scope:
        if text == scope:
            return scope, None
        if scope is not Scope.ADMIN and text.startswith(f"{scope}:"):
            kind = text.removeprefix(f"{scope}:")
            if not is_name(kind):
                raise ValueError(f"{text!r} names no kind: {NAME_RULE}")
            return scope, kind
    raise ValueError(
        f"{text!r} is no scope: use {', '.join(Scope)}, all but admin also with :KIND behind"
    )


def quota_problem(name: str, value: int | None) -> str | None:
    """Return what is wrong with a quota, or None."""
    if value is None or 0 <= value <= LARGEST_QUOTA:
        return None
    return f"{name} is a whole number from 0 on, or nothing for no limit"
