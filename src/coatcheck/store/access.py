"""The access part of a store: tenants, their API keys, and their usage.

*The access epoch.* Every write to a tenant or a key increments one number in the same transaction.
A cache of permissions stores the epoch it was read at and is valid as long as that epoch is
current. A submit can name its epoch (`JobStore.submit`): if another is current, nothing is written
and AccessChanged is raised. So the common request reads nothing, and yet a revoked key submits
nothing from the moment that the revocation returned.

*Usage* is written in the transaction of the submit or the transition that it counts. Usage exists
if and only if the write happened, however often the write was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coatcheck.model.access import ApiKey, KeyUse, Load, Quotas, Tenant
from coatcheck.model.audit import AuditEntry
from coatcheck.model.usage import Usage


class AccessState(NamedTuple):
    """The access epoch, and whether any key was ever created."""

    epoch: int
    has_keys: bool


class AccessStore(Protocol):
    """The verbs on tenants and keys."""

    async def get_state(self) -> AccessState:
        """Read the access epoch, and whether there is any key, revoked ones included."""
        ...

    async def put_tenant(self, tenant: Tenant, *, audit: AuditEntry | None = None) -> None:
        """Create a tenant, or replace it; its creation time is kept."""
        ...

    async def get_tenant(self, name: str) -> Tenant | None:
        """Read a tenant."""
        ...

    async def list_tenants(self, after: str = "", limit: int = 100) -> list[Tenant]:
        """List tenants by name, after the name `after`."""
        ...

    async def add_key(
        self,
        key: ApiKey,
        *,
        audit: AuditEntry | None = None,
        tenant_audit: AuditEntry | None = None,
    ) -> None:
        """Write a key, and its tenant if that is new. Raises Conflict if the id is taken.

        `tenant_audit` is written if the tenant is new.
        """
        ...

    async def get_key(self, key_id: str) -> tuple[ApiKey, Tenant] | None:
        """Read a key, even a revoked one, and its tenant."""
        ...

    async def list_keys(
        self, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[ApiKey]:
        """List the keys of one tenant or of all by id, after the id `after`."""
        ...

    async def revoke_key(
        self, key_id: str, now: int, *, audit: AuditEntry | None = None
    ) -> ApiKey | None:
        """Revoke a key for good and return it, or None if there is none.

        A key that was revoked before keeps its time, and no audit entry is written.
        """
        ...

    async def touch_keys(self, uses: Sequence[KeyUse], apart_ms: int) -> None:
        """Record when keys were last used, unless a use less than `apart_ms` older is recorded.

        This does not change the epoch.
        """
        ...

    async def list_usage(
        self, tenant: str, since: int, until: int, kind: str | None = None
    ) -> list[Usage]:
        """List a tenant's usage by hour and kind, for the hours that begin in a period."""
        ...

    async def measure_load(self, tenant: str, quotas: Quotas, now: int) -> Load:
        """Count a tenant's use of each quota that is set. Jobs are counted up to the quota."""
        ...
