"""The audit trail.

The operator's keys see all entries. The keys of any other tenant see the entries about that
tenant's resources, regardless of the actor.
"""

from __future__ import annotations

import json

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import to_rfc3339
from coatcheck.documents.access import AuditEntryDocument, AuditPage
from coatcheck.engine.engine import Engine
from coatcheck.http.access.handlers import visible_tenant
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.query import (
    MAX_PAGE,
    PAGE,
    read_number,
    read_time,
    upper_bound,
    write_cursor,
)
from coatcheck.ids import first_ulid_at
from coatcheck.model.audit import Action, AuditEntry, Resource
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.store.audit import AuditFilter


async def list_audit(request: Request) -> Response:
    """Return a page of the audit trail, newest first."""
    engine: Engine = request.app.state.engine
    which = read_audit_filter(request.query_params)
    which = which._replace(tenant=visible_tenant(request, which.tenant))
    # One more than the limit tells whether there is another page.
    found = await engine.store.audit.list_entries(which._replace(limit=which.limit + 1))
    page = found[: which.limit]
    more = write_cursor(page[-1].id) if len(found) > which.limit else None
    document: AuditPage = {"entries": [entry_view(entry) for entry in page], "next_cursor": more}
    return Response(dumps(document), media_type=JSON)


def read_audit_filter(query: QueryParams) -> AuditFilter:
    """Read the filter of a listing."""
    since = read_time(query, "since")
    return AuditFilter(
        tenant=_name(query, "tenant"),
        actor=_name(query, "actor"),
        action=_one_of(query, "action", Action),
        resource=_one_of(query, "resource", Resource),
        resource_id=_name(query, "resource_id"),
        since=None if since is None else first_ulid_at(since),
        before=upper_bound(query.get("cursor"), read_time(query, "until")),
        limit=read_number(query, "limit", PAGE, 1, MAX_PAGE),
    )


def entry_view(entry: AuditEntry) -> AuditEntryDocument:
    """Return an entry of the audit trail."""
    return {
        "id": entry.id,
        "at": to_rfc3339(entry.at),
        "tenant": entry.tenant,
        "actor": entry.actor,
        "action": entry.action,
        "resource": entry.resource,
        "resource_id": entry.resource_id,
        "detail": json.loads(entry.detail),
    }


def _name(query: QueryParams, parameter: str) -> str | None:
    text = query.get(parameter)
    if text is not None and not is_name(text):
        raise HTTPException(400, f"{parameter}: {NAME_RULE}")
    return text


def _one_of(query: QueryParams, parameter: str, known: type[Action] | type[Resource]) -> str | None:
    text = query.get(parameter)
    if text is not None and text not in list(known):
        raise HTTPException(400, f"{parameter} must be one of {', '.join(known)}")
    return text
