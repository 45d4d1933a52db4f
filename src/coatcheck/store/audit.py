"""The part of a store that holds the audit trail.

Verbs that change a key, a tenant, a webhook, a schedule or a record take an entry (`audit`). It is
written in the transaction of the change, and only if the change happened: there is never one
without the other. Entries are only ever added and, past their retention, removed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from coatcheck.model.audit import AuditEntry


class AuditFilter(NamedTuple):
    """Which entries to list, newest first; None is any. `since` and `before` are ids, `before`
    being the last one already seen.
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

    async def list_audit(self, which: AuditFilter) -> list[AuditEntry]:
        """List entries, newest first."""
        ...

    async def delete_audit(self, before: str, limit: int) -> int:
        """Delete up to so many of the oldest entries with smaller ids; return how many."""
        ...
