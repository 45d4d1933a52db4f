"""The audit part of a store.

Verbs that change a key, a tenant, a webhook, a schedule or a record take an entry (`audit`). The
entry is written in the transaction of the change, and only if the change happened. Entries are
never updated; past their retention they are deleted.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from coatcheck.model.audit import AuditEntry


class AuditFilter(NamedTuple):
    """A filter and a page of entries, newest first. None matches everything.

    `since` and `before` are ids; `before` is the last id of the previous page.
    """

    tenant: str | None = None
    actor: str | None = None
    action: str | None = None
    resource: str | None = None
    resource_id: str | None = None
    since: str | None = None
    before: str | None = None
    limit: int = 50


class AuditStore(Protocol):
    """The verbs on the audit trail."""

    async def list_entries(self, page: AuditFilter) -> list[AuditEntry]:
        """List entries, newest first."""
        ...

    async def delete_entries(self, before: str, limit: int) -> int:
        """Delete up to `limit` of the oldest entries with ids below `before`. Returns the number
        deleted.
        """
        ...
