"""The endpoints for keys, tenants, usage and the audit trail."""

from __future__ import annotations

from coatcheck.documents.access import ActionName, ResourceName
from coatcheck.documents.fields import Name, Timestamp
from coatcheck.documents.schema import schema_of
from coatcheck.http.access import audit, handlers
from coatcheck.http.endpoint import (
    Access,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    KindRule,
    Parameter,
    as_json,
    ref,
)
from coatcheck.http.request.query import MAX_PAGE
from coatcheck.model.access import Scope

_BODY_ERRORS = (408, 413, 415, 422)
_NAME = schema_of(Name)
_TIME = schema_of(Timestamp)
_LIMIT = Parameter(
    "limit", "The page size.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}
)
_CURSOR = Parameter(
    "cursor",
    "The `next_cursor` of the previous page.",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
)

ACCESS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/keys",
        handlers.create_key,
        "createKey",
        "Create a key, which is shown once",
        "keys",
        {201: EndpointResponse("The key.", as_json(ref("NewKey")), ("Location",))},
        error_statuses=(404, *_BODY_ERRORS),
        body=EndpointBody("The tenant and the scopes of the key.", as_json(ref("KeyRequest"))),
        needs=Scope.ADMIN,
        access=Access.HANDLER_CHECKED,
    ),
    Endpoint(
        "GET",
        "/v1/keys",
        handlers.list_keys,
        "listKeys",
        "List keys",
        "keys",
        {200: EndpointResponse("A page of keys.", as_json(ref("KeyPage")))},
        error_statuses=(404,),
        parameters=(Parameter("tenant", "Only keys of this tenant.", _NAME), _LIMIT, _CURSOR),
        needs=Scope.ADMIN,
        access=Access.HANDLER_CHECKED,
    ),
    Endpoint(
        "DELETE",
        "/v1/keys/{key_id}",
        handlers.revoke_key,
        "revokeKey",
        "Revoke a key",
        "keys",
        {200: EndpointResponse("The revoked key.", as_json(ref("Key")))},
        error_statuses=(404,),
        needs=Scope.ADMIN,
        access=Access.HANDLER_CHECKED,
    ),
    Endpoint(
        "GET",
        "/v1/tenants",
        handlers.list_tenants,
        "listTenants",
        "List tenants",
        "tenants",
        {200: EndpointResponse("A page of tenants.", as_json(ref("TenantPage")))},
        parameters=(_LIMIT, _CURSOR),
        needs=Scope.ADMIN,
        access=Access.OPERATOR,
    ),
    Endpoint(
        "PUT",
        "/v1/tenants/{owner}",
        handlers.put_tenant,
        "putTenant",
        "Create or change a tenant",
        "tenants",
        {
            200: EndpointResponse("The tenant was changed.", as_json(ref("Tenant"))),
            201: EndpointResponse("The tenant was created.", as_json(ref("Tenant")), ("Location",)),
        },
        error_statuses=_BODY_ERRORS,
        body=EndpointBody("The changes.", as_json(ref("TenantRequest"))),
        needs=Scope.ADMIN,
        access=Access.OPERATOR,
    ),
    Endpoint(
        "GET",
        "/v1/tenants/{owner}",
        handlers.get_tenant,
        "getTenant",
        "Get a tenant",
        "tenants",
        {200: EndpointResponse("The tenant.", as_json(ref("Tenant")))},
        error_statuses=(404,),
        access=Access.HANDLER_CHECKED,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        "/v1/tenants/{owner}/usage",
        handlers.get_usage,
        "getUsage",
        "Get the usage of a tenant by hour and kind",
        "tenants",
        {200: EndpointResponse("The hours with any usage.", as_json(ref("UsagePage")))},
        error_statuses=(404,),
        parameters=(
            Parameter("since", "Hours that begin at this time or later.", _TIME),
            Parameter("until", "Hours that begin before this time (now).", _TIME),
            Parameter("kind", "Only this kind.", {"type": "string"}),
        ),
        access=Access.HANDLER_CHECKED,
        kind=KindRule.ALL,
    ),
    Endpoint(
        "GET",
        "/v1/audit",
        audit.list_audit,
        "listAudit",
        "List who changed keys, tenants, webhooks, schedules and tasks",
        "audit",
        {200: EndpointResponse("A page of entries, newest first.", as_json(ref("AuditPage")))},
        error_statuses=(404,),
        parameters=(
            Parameter("tenant", "Only this tenant's resources.", _NAME),
            Parameter(
                "actor", "Only changes by this key, or by `anonymous`, `cli` or `app`.", _NAME
            ),
            Parameter("action", "Only this action.", schema_of(ActionName)),
            Parameter("resource", "Only this type of resource.", schema_of(ResourceName)),
            Parameter("resource_id", "Only the resource with this id or name.", _NAME),
            Parameter("since", "Only changes at this time or later.", _TIME),
            Parameter("until", "Only changes before this time.", _TIME),
            _LIMIT,
            _CURSOR,
        ),
        needs=Scope.ADMIN,
        access=Access.HANDLER_CHECKED,
    ),
)
