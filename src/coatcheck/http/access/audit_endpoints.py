"""The part of the table of calls that is about the audit trail."""

from __future__ import annotations

from coatcheck.http.access import audit
from coatcheck.http.endpoint import (
    Access,
    Endpoint,
    EndpointResponse,
    Parameter,
    Schema,
    as_json,
    ref,
)
from coatcheck.http.json_schema import NAME, TEXT, TIME, listed, maybe, whole
from coatcheck.http.request.query import MAX_PAGE
from coatcheck.model.access import Scope
from coatcheck.model.audit import Action, Resource

_ACTION: Schema = {"enum": [str(action) for action in Action]}
_RESOURCE: Schema = {"enum": [str(resource) for resource in Resource]}

AUDIT: tuple[Endpoint, ...] = (
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
            Parameter("tenant", "Only this tenant's resources.", NAME),
            Parameter(
                "actor", "Only changes by this key, or by `anonymous`, `cli` or `app`.", NAME
            ),
            Parameter("action", "Only this action.", _ACTION),
            Parameter("resource", "Only this kind of resource.", _RESOURCE),
            Parameter("resource_id", "Only the resource with this id or name.", NAME),
            Parameter("since", "Only changes at this time or later.", TIME),
            Parameter("until", "Only changes before this time.", TIME),
            Parameter(
                "limit",
                "How many.",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
            ),
            Parameter(
                "cursor",
                "`next_cursor` of the page before.",
                {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
            ),
        ),
        needs=Scope.ADMIN,
        access=Access.HANDLER_CHECKED,
    ),
)


def audit_components() -> dict[str, Schema]:
    """Return every named shape."""
    entry = whole(
        {
            "id": TEXT,
            "at": TIME,
            "tenant": NAME,
            "actor": NAME,
            "action": _ACTION,
            "resource": _RESOURCE,
            "resource_id": TEXT,
            "detail": {"type": "object"},
        }
    )
    return {
        "AuditEntry": entry,
        "AuditPage": whole({"entries": listed(ref("AuditEntry")), "next_cursor": maybe(TEXT)}),
    }
