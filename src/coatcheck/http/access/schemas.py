"""The shapes of keys, tenants and usage."""

from __future__ import annotations

from coatcheck.http.access.models import KeyRequest, QuotasRequest, TenantRequest
from coatcheck.http.endpoint import Schema, ref
from coatcheck.http.json_schema import (
    COUNT,
    KEY_ID,
    NAME,
    TEXT,
    TIME,
    described,
    listed,
    maybe,
    whole,
)
from coatcheck.model.access import KEY, Quotas, TenantStatus
from coatcheck.model.usage import Usage

_KEY = {
    "id": KEY_ID,
    "tenant": NAME,
    "scopes": listed(TEXT),
    "note": TEXT,
    "created_at": TIME,
    "expires_at": maybe(TIME),
    "revoked_at": maybe(TIME),
    "last_used_at": maybe(TIME),
}
_SECRET: Schema = {"type": "string", "pattern": f"^{KEY.pattern}$", "description": "Shown once."}
_TENANT = whole(
    {
        "name": NAME,
        "status": {"enum": [str(status) for status in TenantStatus]},
        "quotas": whole({name: maybe(COUNT) for name in Quotas._fields}),
        "created_at": TIME,
        "updated_at": TIME,
    }
)
_USAGE = whole(
    {"tenant": NAME, "kind": NAME, "hour": TIME, **dict.fromkeys(Usage._fields[3:], COUNT)}
)


def access_components() -> dict[str, Schema]:
    """Return every named shape."""
    tenant_request = described(TenantRequest)
    tenant_request["properties"]["quotas"] = maybe(ref("QuotasRequest"))
    tenant_request["properties"]["status"] = maybe(_TENANT["properties"]["status"])
    tenant_request.pop("$defs", None)
    return {
        "Key": whole(_KEY),
        "NewKey": whole({**_KEY, "key": _SECRET}),
        "KeyPage": whole({"keys": listed(ref("Key")), "next_cursor": maybe(TEXT)}),
        "KeyRequest": described(KeyRequest, expires_at=maybe(TIME)),
        "Tenant": _TENANT,
        "TenantPage": whole({"tenants": listed(ref("Tenant")), "next_cursor": maybe(TEXT)}),
        "TenantRequest": tenant_request,
        "QuotasRequest": described(QuotasRequest),
        "UsagePage": whole({"usage": listed(_USAGE)}),
    }
