"""The handlers of keys, tenants and usage.

The operator's keys see all tenants. The keys of any other tenant see only that tenant.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.access import (
    KeyDocument,
    KeyPage,
    NewKey,
    StatusName,
    TenantDocument,
    TenantPage,
    UsageDocument,
    UsagePage,
)
from coatcheck.documents.schema import documented_as, nullable, omit_default, schema_of
from coatcheck.engine.auth import Authenticator
from coatcheck.engine.confirmation import waive_confirmation
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.auth.caller import actor_of, caller_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps, optional_time
from coatcheck.http.request.models import OptionalTime, RequestModel, read_model
from coatcheck.http.request.query import (
    MAX_PAGE,
    PAGE,
    read_cursor,
    read_number,
    read_time,
    write_cursor,
)
from coatcheck.model.access import (
    LARGEST_QUOTA,
    LONGEST_NOTE,
    MOST_SCOPES,
    OPERATOR,
    ApiKey,
    Quotas,
    Scope,
    Tenant,
    TenantStatus,
)
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.usage import HOUR_MS, Usage

DAY_MS = 24 * HOUR_MS
MAX_USAGE_MS = 92 * DAY_MS
_Limit = Annotated[int, Field(ge=0, le=LARGEST_QUOTA)] | None


class KeyRequest(RequestModel):
    """A key to create: its tenant, by default the caller's, and its scopes."""

    tenant: str | None = None
    scopes: Annotated[list[str], Field(min_length=1, max_length=MOST_SCOPES)]
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    expires_at: OptionalTime = None


class QuotasRequest(RequestModel):
    """The quotas of a tenant; null means no limit."""

    jobs_waiting: _Limit = None
    jobs_running: _Limit = None
    submits_per_minute: _Limit = None
    payload_bytes: _Limit = None
    stored_bytes: _Limit = None

    def as_quotas(self) -> Quotas:
        """Return the quotas as a model value."""
        return Quotas(**self.model_dump())


class TenantRequest(RequestModel):
    """Changes of a tenant; omitted members do not change."""

    status: Annotated[
        TenantStatus | None,
        Field(strict=False, json_schema_extra=documented_as(nullable(schema_of(StatusName)))),
    ] = None
    quotas: Annotated[QuotasRequest | None, Field(json_schema_extra=omit_default)] = None


async def create_key(request: Request) -> Response:
    """Create a key. The key is in this response only."""
    wanted = await read_model(request, KeyRequest)
    tenant = visible_tenant(request, wanted.tenant) or caller_of(request).tenant
    key, secret = await _authenticator(request).create_key(
        tenant,
        wanted.scopes,
        note=wanted.note,
        expires_at=wanted.expires_at,
        actor=actor_of(request),
    )
    waive_confirmation()
    headers = {"Location": f"/v1/keys/{key.id}", "Cache-Control": "no-store"}
    created: NewKey = {**key_view(key), "key": secret}
    return Response(dumps(created), 201, headers, JSON)


async def list_keys(request: Request) -> Response:
    """Return a page of keys. Their secrets are not stored."""
    query = request.query_params
    named = query.get("tenant")
    if named is not None and not is_name(named):
        raise HTTPException(400, f"invalid tenant name: {NAME_RULE}")
    tenant = visible_tenant(request, named)
    after, limit = _page_of(query)
    # One more than the limit tells whether there is another page.
    found = await _authenticator(request).keys(tenant, after, limit + 1)
    more = write_cursor(found[limit - 1].id) if len(found) > limit else None
    page: KeyPage = {"keys": [key_view(key) for key in found[:limit]], "next_cursor": more}
    return Response(dumps(page), media_type=JSON)


async def revoke_key(request: Request) -> Response:
    """Revoke a key, at once and in all processes. It stays in the list."""
    key = await _authenticator(request).revoke_key(
        request.path_params["key_id"], visible_tenant(request, None), actor=actor_of(request)
    )
    waive_confirmation()
    return Response(dumps(key_view(key)), media_type=JSON)


async def list_tenants(request: Request) -> Response:
    """Return a page of tenants, by name."""
    after, limit = _page_of(request.query_params)
    found = await _authenticator(request).tenants(after, limit + 1)
    more = write_cursor(found[limit - 1].name) if len(found) > limit else None
    page: TenantPage = {
        "tenants": [tenant_view(each) for each in found[:limit]],
        "next_cursor": more,
    }
    return Response(dumps(page), media_type=JSON)


async def put_tenant(request: Request) -> Response:
    """Create a tenant (201) or change it (200). It takes effect at once for all its keys."""
    wanted = await read_model(request, TenantRequest)
    tenant, is_new = await _authenticator(request).put_tenant(
        request.path_params["owner"],
        status=wanted.status,
        quotas=None if wanted.quotas is None else wanted.quotas.as_quotas(),
        actor=actor_of(request),
    )
    waive_confirmation()
    headers = {"Location": f"/v1/tenants/{tenant.name}"} if is_new else None
    return Response(dumps(tenant_view(tenant)), 201 if is_new else 200, headers, JSON)


async def get_tenant(request: Request) -> Response:
    """Return a tenant with its status and quotas."""
    tenant = await _authenticator(request).tenant(_visible_tenant(request))
    return Response(dumps(tenant_view(tenant)), media_type=JSON)


async def get_usage(request: Request) -> Response:
    """Return the usage of a tenant by hour and kind; by default for the last day."""
    engine: Engine = request.app.state.engine
    query = request.query_params
    tenant = await engine.authenticator.tenant(_visible_tenant(request))
    until = read_time(query, "until")
    until = engine.clock.now() + 1 if until is None else until
    since = read_time(query, "since")
    since = max(0, until - DAY_MS) if since is None else since
    if not 0 <= until - since <= MAX_USAGE_MS:
        raise HTTPException(400, "since must be before until, by at most 92 days")
    found = await engine.store.access.list_usage(tenant.name, since, until, query.get("kind"))
    page: UsagePage = {"usage": [usage_view(each) for each in found]}
    return Response(dumps(page), media_type=JSON)


def key_view(key: ApiKey) -> KeyDocument:
    """Return a key without its secret."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "scopes": list(key.scopes),
        "note": key.note,
        "created_at": to_rfc3339(key.created_at),
        "expires_at": optional_time(key.expires_at),
        "revoked_at": optional_time(key.revoked_at),
        "last_used_at": optional_time(key.last_used_at),
    }


def tenant_view(tenant: Tenant) -> TenantDocument:
    """Return a tenant."""
    quotas = tenant.quotas
    return {
        "name": tenant.name,
        "status": str(tenant.status),
        "quotas": {
            "jobs_waiting": quotas.jobs_waiting,
            "jobs_running": quotas.jobs_running,
            "submits_per_minute": quotas.submits_per_minute,
            "payload_bytes": quotas.payload_bytes,
            "stored_bytes": quotas.stored_bytes,
        },
        "created_at": to_rfc3339(tenant.created_at),
        "updated_at": to_rfc3339(tenant.updated_at),
    }


def usage_view(used: Usage) -> UsageDocument:
    """Return the usage within one hour."""
    return {
        "tenant": used.tenant,
        "kind": used.kind,
        "hour": to_rfc3339(used.hour),
        "submitted": used.submitted,
        "input_bytes": used.input_bytes,
        "runs": used.runs,
        "run_ms": used.run_ms,
        "succeeded": used.succeeded,
        "failed": used.failed,
        "cancelled": used.cancelled,
    }


def _visible_tenant(request: Request) -> str:
    name: str = request.path_params["owner"]
    caller = caller_of(request)
    if name != caller.tenant and not caller.is_operator:
        raise NotFound("there is no such tenant")
    return name


def visible_tenant(request: Request, named: str | None) -> str | None:
    """Return the tenant to act on, None for all. Only the operator may name another."""
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
