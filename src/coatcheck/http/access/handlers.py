"""The calls on keys and tenants, and on what tenants use.

The operator's keys see all of them. The keys of any other tenant see that tenant, and no other is
there for them.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.engine.auth import Authenticator
from coatcheck.engine.confirmation import waive_confirmation
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.access.models import KeyRequest, TenantRequest
from coatcheck.http.auth.caller import actor_of, caller_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.models import read_model
from coatcheck.http.request.query import (
    MAX_PAGE,
    PAGE,
    read_cursor,
    read_number,
    read_time,
    write_cursor,
)
from coatcheck.model.access import OPERATOR, ApiKey, Scope, Tenant
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.usage import HOUR_MS, Usage

DAY_MS = 24 * HOUR_MS
LONGEST_USAGE_MS = 92 * DAY_MS


async def create_key(request: Request) -> Response:
    """Make a key. It is in this answer and nowhere else: whoever loses it makes another."""
    asked = await read_model(request, KeyRequest)
    tenant = only_own(request, asked.tenant) or caller_of(request).tenant
    key, shown = await _authenticator(request).create_key(
        tenant,
        asked.scopes,
        note=asked.note,
        expires_at=asked.expires_at,
        actor=actor_of(request),
    )
    waive_confirmation()
    headers = {"Location": f"/v1/keys/{key.id}", "Cache-Control": "no-store"}
    return Response(dumps({**key_view(key), "key": shown}), 201, headers, JSON)


async def list_keys(request: Request) -> Response:
    """Answer with a page of keys, without their secrets, which nobody has."""
    query = request.query_params
    named = query.get("tenant")
    if named is not None and not is_name(named):
        raise HTTPException(400, f"this cannot be a tenant's name: {NAME_RULE}")
    tenant = only_own(request, named)
    after, limit = _page_of(query)
    # One more than asked for tells whether there is another page.
    found = await _authenticator(request).keys(tenant, after, limit + 1)
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    answer = {"keys": [key_view(key) for key in found[:limit]], "next_cursor": more}
    return Response(dumps(answer), media_type=JSON)


async def revoke_key(request: Request) -> Response:
    """End a key for good, everywhere and at once; it stays in the list."""
    key = await _authenticator(request).revoke_key(
        request.path_params["key_id"], only_own(request, None), actor=actor_of(request)
    )
    waive_confirmation()
    return Response(dumps(key_view(key)), media_type=JSON)


async def list_tenants(request: Request) -> Response:
    """Answer with a page of tenants, by name."""
    after, limit = _page_of(request.query_params)
    found = await _authenticator(request).tenants(after, limit + 1)
    more = write_cursor(found[limit - 1].name) if len(found) > limit else None
    answer = {"tenants": [tenant_view(each) for each in found[:limit]], "next_cursor": more}
    return Response(dumps(answer), media_type=JSON)


async def put_tenant(request: Request) -> Response:
    """Make a tenant (201), or change what is said of it (200): at once, for all its keys."""
    asked = await read_model(request, TenantRequest)
    tenant, is_new = await _authenticator(request).put_tenant(
        request.path_params["owner"],
        status=asked.status,
        quotas=None if asked.quotas is None else asked.quotas.as_quotas(),
        actor=actor_of(request),
    )
    waive_confirmation()
    headers = {"Location": f"/v1/tenants/{tenant.name}"} if is_new else None
    return Response(dumps(tenant_view(tenant)), 201 if is_new else 200, headers, JSON)


async def get_tenant(request: Request) -> Response:
    """Answer with a tenant: its status and its quotas."""
    tenant = await _authenticator(request).tenant(_visible(request))
    return Response(dumps(tenant_view(tenant)), media_type=JSON)


async def get_usage(request: Request) -> Response:
    """Answer with what a tenant has used, for each hour and kind; the last day unless told."""
    engine: Engine = request.app.state.engine
    query = request.query_params
    tenant = await engine.authenticator.tenant(_visible(request))
    until = read_time(query, "until")
    until = engine.clock.now() + 1 if until is None else until
    since = read_time(query, "since")
    since = max(0, until - DAY_MS) if since is None else since
    if not 0 <= until - since <= LONGEST_USAGE_MS:
        raise HTTPException(400, "since and until are in this order, and at most 92 days apart")
    found = await engine.store.access.list_usage(tenant.name, since, until, query.get("kind"))
    return Response(dumps({"usage": [usage_view(each) for each in found]}), media_type=JSON)


def key_view(key: ApiKey) -> dict[str, Any]:
    """Return a key as it is shown."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "scopes": list(key.scopes),
        "note": key.note,
        "created_at": to_rfc3339(key.created_at),
        "expires_at": None if key.expires_at is None else to_rfc3339(key.expires_at),
        "revoked_at": None if key.revoked_at is None else to_rfc3339(key.revoked_at),
        "last_used_at": None if key.last_used_at is None else to_rfc3339(key.last_used_at),
    }


def tenant_view(tenant: Tenant) -> dict[str, Any]:
    """Return a tenant as it is shown."""
    return {
        "name": tenant.name,
        "status": str(tenant.status),
        "quotas": tenant.quotas._asdict(),
        "created_at": to_rfc3339(tenant.created_at),
        "updated_at": to_rfc3339(tenant.updated_at),
    }


def usage_view(used: Usage) -> dict[str, Any]:
    """Return what was used within an hour as it is shown."""
    return {**used._asdict(), "hour": to_rfc3339(used.hour)}


def _visible(request: Request) -> str:
    name: str = request.path_params["owner"]
    caller = caller_of(request)
    if name != caller.tenant and not caller.is_operator:
        raise NotFound("there is no such tenant")
    return name


def only_own(request: Request, named: str | None) -> str | None:
    """Return the tenant that is meant, None for all; others than the operator have their own."""
    caller = caller_of(request)
    if caller.tenant == OPERATOR and caller.may(Scope.ADMIN):
        return named
    if named not in (None, caller.tenant):
        raise NotFound("there is no such tenant")
    return caller.tenant


def _page_of(query: QueryParams) -> tuple[str, int]:
    limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
    cursor = query.get("cursor")
    return "" if cursor is None else read_cursor(cursor, is_name), limit


def _authenticator(request: Request) -> Authenticator:
    engine: Engine = request.app.state.engine
    return engine.authenticator
