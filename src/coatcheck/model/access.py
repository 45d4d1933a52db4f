"""Who may do what: tenants, their quotas, and the keys they come with.

A key is `ck_<id>_<secret>`. The id names it in lists and logs, the secret is known to whoever was
handed the key and to nobody else: what is kept is an HMAC of the whole key.

A key has scopes. `admin` is all of them. `jobs:read:render` is `jobs:read` for jobs of the kind
`render` alone. The tenant `default` is the operator's: `admin` there means the whole server, and
only there is `jobs:work` given out, for workers run jobs of every tenant.
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
    """What a key may be good for."""

    READ = "jobs:read"
    WRITE = "jobs:write"
    CANCEL = "jobs:cancel"
    WORK = "jobs:work"
    ADMIN = "admin"


class TenantStatus(StrEnum):
    """Whether a tenant's keys open anything."""

    ACTIVE = "active"
    UNPAID = "unpaid"
    SUSPENDED = "suspended"


class Quotas(NamedTuple):
    """What a tenant may have or hand in; None is no limit."""

    jobs_waiting: int | None = None  # queued, delayed, or waiting for something
    jobs_running: int | None = None
    submits_per_minute: int | None = None
    payload_bytes: int | None = None  # of inputs handed in within a minute
    stored_bytes: int | None = None  # inputs, results and files that are kept


class Load(NamedTuple):
    """How much of its quotas a tenant uses; what has no limit is not counted, and is 0."""

    jobs_waiting: int = 0
    jobs_running: int = 0
    submits_per_minute: int = 0
    payload_bytes: int = 0
    stored_bytes: int = 0


class Tenant(NamedTuple):
    """Somebody whose jobs nobody else sees."""

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
    note: str  # what it is for, in its maker's words
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None  # to about a minute


class KeyUse(NamedTuple):
    """The latest use of a key."""

    tenant: str
    id: str
    at: int


Grants = Mapping[Scope, frozenset[str] | None]


def read_grants(scopes: Iterable[str]) -> dict[Scope, frozenset[str] | None]:
    """Return which kinds each scope is for, None for all; raises ValueError for what is none."""
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
    """Say what is wrong with a quota, if anything is."""
    if value is None or 0 <= value <= LARGEST_QUOTA:
        return None
    return f"{name} is a whole number from 0 on, or nothing for no limit"
