"""Keys, tenants, usage and the audit trail."""

from __future__ import annotations

from typing import Annotated

from pydantic import WithJsonSchema

from coatcheck.documents.fields import Count, JSONObject, KeyId, Name, Timestamp
from coatcheck.documents.schema import Document
from coatcheck.model.access import KEY, TenantStatus
from coatcheck.model.audit import Action, Resource

StatusName = Annotated[str, WithJsonSchema({"enum": [str(status) for status in TenantStatus]})]
ActionName = Annotated[str, WithJsonSchema({"enum": [str(action) for action in Action]})]
ResourceName = Annotated[str, WithJsonSchema({"enum": [str(each) for each in Resource]})]


class KeyDocument(Document):
    """An API key without its secret."""

    id: KeyId
    tenant: Name
    scopes: list[str]
    note: str
    created_at: Timestamp
    expires_at: Timestamp | None
    revoked_at: Timestamp | None
    last_used_at: Timestamp | None


class NewKey(KeyDocument):
    """A new API key with its secret, which is shown once."""

    key: Annotated[
        str,
        WithJsonSchema(
            {"type": "string", "pattern": f"^{KEY.pattern}$", "description": "Shown once."}
        ),
    ]


class KeyPage(Document):
    """A page of API keys."""

    keys: list[KeyDocument]
    next_cursor: str | None


class QuotasDocument(Document):
    """The quotas of a tenant; null means no limit."""

    jobs_waiting: Count | None
    jobs_running: Count | None
    submits_per_minute: Count | None
    payload_bytes: Count | None
    stored_bytes: Count | None


class TenantDocument(Document):
    """An owner of jobs."""

    name: Name
    status: StatusName
    quotas: QuotasDocument
    created_at: Timestamp
    updated_at: Timestamp


class TenantPage(Document):
    """A page of tenants."""

    tenants: list[TenantDocument]
    next_cursor: str | None


class UsageDocument(Document):
    """The usage of one kind by one tenant within one hour."""

    tenant: Name
    kind: Name
    hour: Timestamp
    submitted: Count
    input_bytes: Count
    runs: Count
    run_ms: Count
    succeeded: Count
    failed: Count
    cancelled: Count


class UsagePage(Document):
    """The hours in which a tenant used something."""

    usage: list[UsageDocument]


class AuditEntryDocument(Document):
    """A change of a key, tenant, webhook, schedule or task."""

    id: str
    at: Timestamp
    tenant: Name
    actor: Name
    action: ActionName
    resource: ResourceName
    resource_id: str
    detail: JSONObject


class AuditPage(Document):
    """A page of the audit trail."""

    entries: list[AuditEntryDocument]
    next_cursor: str | None
