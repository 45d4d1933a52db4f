"""The part of a store that is about tenants, their keys, and what they use.

*The epoch.* Every write to a tenant or a key raises one number in the same transaction. Whoever
remembers what a key may do remembers the epoch too, and what is remembered holds for as long as the
epoch is still that one. A submit can name it (`Store.submit`): where it has moved, nothing is
written and AccessChanged is raised. So the common call asks the store nothing, and yet a key that
was revoked, anywhere, submits nothing from the moment that was answered.

*Usage* is written in the transaction of the submit or the transition that it counts: it is there if
and only if that has happened, however often somebody tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.access import ApiKey, KeyUse, Load, Quotas, Tenant
from coatcheck.model.audit import AuditEntry
from coatcheck.model.usage import Usage


class AccessState(NamedTuple):
    """How things stand: the epoch, and whether there has ever been a key."""

    epoch: int
    has_keys: bool


class AccessStore(Protocol):
    """Tenants and keys, as semantic verbs."""

    async def access(self) -> AccessState:
        """Read the epoch, and whether there is any key, also a revoked one."""
        ...

    async def put_tenant(self, tenant: Tenant, *, audit: AuditEntry | None = None) -> None:
        """Make a tenant, or change it to this; when it was made stays."""
        ...

    async def get_tenant(self, name: str) -> Tenant | None:
        """Read a tenant."""
        ...

    async def list_tenants(self, after: str = "", limit: int = 100) -> list[Tenant]:
        """List tenants in the order of their names, from the one after `after`."""
        ...

    async def add_key(
        self,
        key: ApiKey,
        *,
        audit: AuditEntry | None = None,
        tenant_audit: AuditEntry | None = None,
    ) -> None:
        """Write a key, and its tenant where that is new; an id that is taken raises Conflict.
        `tenant_audit` is written if the tenant is new.
        """
        ...

    async def get_key(self, key_id: str) -> tuple[ApiKey, Tenant] | None:
        """Read a key and its tenant, also one that was revoked."""
        ...

    async def list_keys(
        self, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[ApiKey]:
        """List keys, of one tenant or all, by their ids, from the one after `after`."""
        ...

    async def revoke_key(
        self, key_id: str, now: int, *, audit: AuditEntry | None = None
    ) -> ApiKey | None:
        """End a key for good, and return it as it is then; None where there is none. One that was
        revoked before keeps its time, and no entry is written.
        """
        ...

    async def touch_keys(self, uses: Sequence[KeyUse], apart_ms: int) -> None:
        """Write when keys were last used, unless a use that is less than `apart_ms` older is known.
        This does not raise the epoch.
        """
        ...

    async def usage(
        self, tenant: str, since: int, until: int, kind: str | None = None
    ) -> list[Usage]:
        """Read what a tenant has used in the hours that begin within a time, by hour and kind."""
        ...

    async def load(self, tenant: str, quotas: Quotas, now: int) -> Load:
        """Count what a tenant has of all that it has a quota of; jobs no further than to the quota
        itself.
        """
        ...
