"""Authenticate callers by API key; create, list and revoke keys and tenants.

*Keys.* A key is shown once, when it is created. The store keeps its HMAC-SHA256 under a pepper that
is not in the database. Digests are compared in constant time.

*Cache.* A process caches up to 10,000 authenticated callers for 5 minutes. The cache key is a keyed
hash of the API key under a secret of the process, never the API key itself. That hash takes a
fraction of the time of the digest, and a lookup reveals nothing, because nobody can tell what a
guess hashes to. The cache is valid for one access epoch of the store (store/access.py). Before a
request is answered, the epoch has to be checked:

- `refresh_epoch` reads it; concurrent callers share one read.
- A plain submit needs no read: the store compares the epoch in the submit's own transaction. If the
  epoch has changed, the caller is authenticated again (`Admission.renew`).

So a revoked key, or a key of a suspended tenant, fails at once in every process.

*Without any key*, everyone who can reach the server is the operator; it listens on loopback only.
Once a key has been created, every call needs one, even if all keys are revoked.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple

from coatcheck.clock import Clock
from coatcheck.engine.key_usage import KeyUses
from coatcheck.errors import (
    Forbidden,
    InvalidPayload,
    NotFound,
    PaymentRequired,
    StoreUnavailable,
    TenantSuspended,
    Unauthorized,
)
from coatcheck.ids import UlidGenerator
from coatcheck.model.access import (
    KEY,
    LONGEST_NOTE,
    MOST_SCOPES,
    OPERATOR,
    ApiKey,
    Grants,
    Quotas,
    Scope,
    Tenant,
    TenantStatus,
    quota_problem,
    read_grants,
)
from coatcheck.model.audit import ANONYMOUS, Action, audited
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

MOST_REMEMBERED = 10_000
REMEMBERED_FOR_S = 300.0

Pepper = Callable[[], bytes | None]


class Caller(NamedTuple):
    """An authenticated caller and its grants. `key_id` is None if there are no keys."""

    tenant: str
    grants: Grants
    quotas: Quotas | None = None  # None: no limits
    key_id: str | None = None

    @property
    def is_operator(self) -> bool:
        """Whether this caller administers the whole server."""
        return self.tenant == OPERATOR and Scope.ADMIN in self.grants

    def may(self, scope: Scope) -> bool:
        """Tell whether the caller has a scope, for at least some kinds."""
        return scope in self.grants or Scope.ADMIN in self.grants

    def kinds_for(self, scope: Scope) -> frozenset[str] | None:
        """Return the kinds that a scope covers; None for all."""
        return None if Scope.ADMIN in self.grants else self.grants.get(scope, frozenset())

    def check_kind(self, scope: Scope, kind: str) -> None:
        """Raise Forbidden unless the caller has the scope for this kind."""
        kinds = self.kinds_for(scope)
        if kinds is not None and kind not in kinds:
            raise Forbidden(f"this key has the scope {scope} for other kinds only")


ANONYMOUS_OPERATOR = Caller(OPERATOR, dict.fromkeys(Scope))


class Admission(NamedTuple):
    """The access epoch and quotas under which a submit was authorized, and how to renew them."""

    epoch: int | None
    quotas: Quotas | None
    renew: Callable[[], Awaitable[Admission]]


class _Remembered(NamedTuple):
    caller: Caller
    until: float
    expires_at: int | None  # the key itself


class Authenticator:
    """Authentication for one process, and the administration of keys and tenants."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        pepper: Pepper,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._read_pepper = pepper
        self._new_id = new_id or UlidGenerator(clock)
        self.key_uses = KeyUses(store, clock)
        self._pepper: bytes | None = None
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._hash = blake2b(key=secrets.token_bytes(32), digest_size=32)
        self._reading: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self.epoch: int | None = None  # None: not read yet
        self.needs_key = True

    # --- authentication

    async def refresh_epoch(self) -> None:
        """Read the access epoch, after this call started; clear the cache if it has changed."""
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._refresh_after(self._reading))
        # A cancelled caller must not cancel the read for the others.
        await asyncio.shield(self._next)

    async def _refresh_after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._reading, self._next = self._next, None
        access = await self._store.access.get_state()
        if access.epoch != self.epoch:
            self._remembered.clear()
            self.epoch = access.epoch
            self.needs_key = access.has_keys

    def cached_caller(self, token: bytes | None) -> Caller | None:
        """Return the cached caller of a key; None if the store has to be read."""
        if self.epoch is None:
            return None
        if not self.needs_key:
            return ANONYMOUS_OPERATOR
        found = None if token is None else self._remembered.get(self._hash_of(token))
        if found is None or self._clock.monotonic() >= found.until:
            return None
        if found.expires_at is not None and self._clock.now() >= found.expires_at:
            return None
        self._note_use(found.caller)
        return found.caller

    async def authenticate(self, token: bytes | None) -> Caller:
        """Authenticate a caller under the known epoch; raises Unauthorized and the like."""
        if self.epoch is None:
            await self.refresh_epoch()
        caller = self.cached_caller(token)
        if caller is not None:
            return caller
        if token is None:
            raise Unauthorized("this server needs a key: Authorization: Bearer ck_...")
        epoch = self.epoch
        found = await self._store.access.get_key(key_id) if (key_id := _id_of(token)) else None
        if found is None:
            # Take as long as for a key that exists.
            hmac.compare_digest(self._digest(token), bytes(32))
            raise Unauthorized("there is no such key")
        key, tenant = found
        self._check(token, key, tenant)
        quotas = tenant.quotas if any(limit is not None for limit in tenant.quotas) else None
        caller = Caller(key.tenant, read_grants(key.scopes), quotas, key.id)
        if self.epoch == epoch:  # else the read may be outdated
            until = self._clock.monotonic() + REMEMBERED_FOR_S
            self._remembered[self._hash_of(token)] = _Remembered(caller, until, key.expires_at)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        self._note_use(caller)
        return caller

    def _note_use(self, caller: Caller) -> None:
        if caller.key_id is not None:
            self.key_uses.note(caller.tenant, caller.key_id)

    async def authenticate_fresh(self, token: bytes | None) -> Caller:
        """Authenticate a caller under the epoch that the store has now."""
        await self.refresh_epoch()
        return await self.authenticate(token)

    def _check(self, token: bytes, key: ApiKey, tenant: Tenant) -> None:
        if not hmac.compare_digest(self._digest(token), bytes.fromhex(key.digest)):
            raise Unauthorized("there is no such key")
        if key.revoked_at is not None:
            raise Unauthorized("this key was revoked")
        if key.expires_at is not None and self._clock.now() >= key.expires_at:
            raise Unauthorized("this key has expired")
        if tenant.status is TenantStatus.UNPAID:
            raise PaymentRequired(f"the tenant {tenant.name} has not paid")
        if tenant.status is TenantStatus.SUSPENDED:
            raise TenantSuspended(f"the tenant {tenant.name} is suspended")

    def _hash_of(self, token: bytes) -> bytes:
        hashed = self._hash.copy()
        hashed.update(token)
        return hashed.digest()

    def _digest(self, token: bytes) -> bytes:
        pepper = self._pepper or self._find_pepper()
        return hmac.digest(pepper, token, "sha256")

    def _find_pepper(self) -> bytes:
        self._pepper = self._read_pepper()
        if self._pepper is None:
            raise StoreUnavailable(
                "keys need a pepper, a secret that is not in the database: set COATCHECK_PEPPER to "
                "one, better to a reference to one (file:/run/secrets/pepper)"
            )
        return self._pepper

    # --- keys

    async def create_key(
        self,
        tenant: str,
        scopes: Iterable[str],
        *,
        note: str = "",
        expires_at: int | None = None,
        actor: str = ANONYMOUS,
    ) -> tuple[ApiKey, str]:
        """Create a key, and its tenant if needed; return it and its secret, which is shown once."""
        granted = tuple(dict.fromkeys(scopes))
        now = self._clock.now()
        _check_key(tenant, granted, note, expires_at, now)
        key_id = secrets.token_hex(6)
        shown = f"ck_{key_id}_{secrets.token_hex(32)}"
        digest = self._digest(shown.encode()).hex()
        key = ApiKey(key_id, tenant, digest, granted, note, now, expires_at)
        new_tenant = audited(self._new_id(), actor, Action.CREATE_TENANT, tenant, tenant)
        new_key = audited(
            self._new_id(), actor, Action.CREATE_KEY, key_id, tenant, scopes=list(granted)
        )
        await self._store.access.add_key(key, audit=new_key, tenant_audit=new_tenant)
        await self.refresh_epoch()
        log.info("key created", extra={"key_id": key_id, "tenant": tenant})
        return key, shown

    async def revoke_key(
        self, key_id: str, tenant: str | None = None, *, actor: str = ANONYMOUS
    ) -> ApiKey:
        """Revoke a key, of one tenant or of any; raises NotFound."""
        found = await self._store.access.get_key(key_id) if "\0" not in key_id else None
        if found is None or tenant not in (None, found[0].tenant):
            raise NotFound("there is no such key")
        entry = audited(self._new_id(), actor, Action.REVOKE_KEY, key_id, found[0].tenant)
        revoked = await self._store.access.revoke_key(key_id, self._clock.now(), audit=entry)
        assert revoked is not None, "keys are never removed"
        await self.refresh_epoch()
        log.info("key revoked", extra={"key_id": key_id, "tenant": revoked.tenant})
        return revoked

    async def keys(self, tenant: str | None, after: str = "", limit: int = 100) -> list[ApiKey]:
        """List keys, of one tenant or of all."""
        return await self._store.access.list_keys(tenant, after, limit)

    # --- tenants

    async def tenant(self, name: str) -> Tenant:
        """Read a tenant; the operator's always exists. Raises NotFound."""
        found = await self._store.access.get_tenant(name) if is_name(name) else None
        if found is None and name == OPERATOR:
            return Tenant(OPERATOR)
        if found is None:
            raise NotFound("there is no such tenant")
        return found

    async def put_tenant(
        self,
        name: str,
        *,
        status: TenantStatus | None = None,
        quotas: Quotas | None = None,
        actor: str = ANONYMOUS,
    ) -> tuple[Tenant, bool]:
        """Create a tenant or change the given fields; return it, and whether it is new."""
        if not is_name(name):
            raise InvalidPayload(f"/name: {NAME_RULE}", [("/name", NAME_RULE)])
        limits = quotas._asdict() if quotas is not None else {}
        wrong = [
            (f"/quotas/{each}", said)
            for each, value in limits.items()
            if (said := quota_problem(each, value)) is not None
        ]
        if wrong:
            raise InvalidPayload(f"{wrong[0][0]}: {wrong[0][1]}", wrong)
        if name == OPERATOR and status not in (None, TenantStatus.ACTIVE):
            why = "the operator's own tenant stays active: who else could change it back?"
            raise InvalidPayload(f"/status: {why}", [("/status", why)])
        there = await self._store.access.get_tenant(name)
        now = self._clock.now()
        tenant = (there or Tenant(name, created_at=now))._replace(updated_at=now)
        if status is not None:
            tenant = tenant._replace(status=status)
        if quotas is not None:
            tenant = tenant._replace(quotas=quotas)
        action = Action.CREATE_TENANT if there is None else Action.UPDATE_TENANT
        detail = {"status": str(tenant.status), "quotas": tenant.quotas._asdict()}
        entry = audited(self._new_id(), actor, action, name, name, **detail)
        await self._store.access.put_tenant(tenant, audit=entry)
        await self.refresh_epoch()
        log.info("tenant changed", extra={"tenant": name, "status": str(tenant.status)})
        return tenant, there is None

    async def tenants(self, after: str = "", limit: int = 100) -> list[Tenant]:
        """List tenants by name."""
        return await self._store.access.list_tenants(after, limit)


def _id_of(token: bytes | None) -> str:
    found = KEY.fullmatch(token.decode("latin-1")) if token is not None else None
    return "" if found is None else found[1]


def _check_key(
    tenant: str, scopes: tuple[str, ...], note: str, expires_at: int | None, now: int
) -> None:
    problems = []
    if not is_name(tenant):
        problems.append(("/tenant", NAME_RULE))
    if not 1 <= len(scopes) <= MOST_SCOPES:
        problems.append(("/scopes", f"a key has 1 to {MOST_SCOPES} scopes"))
    for number, scope in enumerate(scopes[:MOST_SCOPES]):
        try:
            granted = read_grants([scope])
        except ValueError as error:
            problems.append((f"/scopes/{number}", str(error)))
        else:
            if Scope.WORK in granted and tenant != OPERATOR:
                why = f"workers run jobs of every tenant: their keys belong to {OPERATOR!r}"
                problems.append((f"/scopes/{number}", why))
    if len(note) > LONGEST_NOTE or "\0" in note:
        problems.append(("/note", f"at most {LONGEST_NOTE} characters, and no NUL"))
    if expires_at is not None and expires_at <= now:
        problems.append(("/expires_at", "that time has passed"))
    if problems:
        raise InvalidPayload("; ".join(f"{at}: {what}" for at, what in problems[:3]), problems)
