"""The part of the table of calls that is about keys and tenants."""

from __future__ import annotations

from coatcheck.http.access import handlers
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
from coatcheck.http.json_schema import NAME, TEXT, TIME
from coatcheck.http.request.query import MAX_PAGE
from coatcheck.model.access import Scope

_BODY_REFUSALS = (408, 413, 415, 422)
_LIMIT = Parameter("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE})
_CURSOR = Parameter(
    "cursor",
    "`next_cursor` of the page before.",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
)

ACCESS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/keys",
        handlers.create_key,
        "createKey",
        "Make a key, which is shown once",
        "keys",
        {201: EndpointResponse("The key.", as_json(ref("NewKey")), ("Location",))},
        error_statuses=(404, *_BODY_REFUSALS),
        body=EndpointBody("Whose, and what for.", as_json(ref("KeyRequest"))),
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
        parameters=(Parameter("tenant", "Only this tenant's.", NAME), _LIMIT, _CURSOR),
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
        {200: EndpointResponse("The key, as it is listed from now on.", as_json(ref("Key")))},
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
        "Make a tenant, or change it",
        "tenants",
        {
            200: EndpointResponse("The tenant, changed.", as_json(ref("Tenant"))),
            201: EndpointResponse("The tenant, new.", as_json(ref("Tenant")), ("Location",)),
        },
        error_statuses=_BODY_REFUSALS,
        body=EndpointBody("What to change.", as_json(ref("TenantRequest"))),
        needs=Scope.ADMIN,
        access=Access.OPERATOR,
    ),
    Endpoint(
        "GET",
        "/v1/tenants/{owner}",
        handlers.get_tenant,
        "getTenant",
        "Look at a tenant",
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
        "What a tenant has used, by hour and kind",
        "tenants",
        {
            200: EndpointResponse(
                "The hours in which there was something.", as_json(ref("UsagePage"))
            )
        },
        error_statuses=(404,),
        parameters=(
            Parameter("since", "Hours that begin at this time or later.", TIME),
            Parameter("until", "Hours that begin before this time (now).", TIME),
            Parameter("kind", "Only this kind.", TEXT),
        ),
        access=Access.HANDLER_CHECKED,
        kind=KindRule.ALL,
    ),
)
