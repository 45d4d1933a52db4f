"""A caller's idempotency key."""

from __future__ import annotations

from typing import NamedTuple

from coatcheck.errors import KeyReused
from coatcheck.store.base import Idempotency

# How long a key makes a request happen once.
KEY_TTL_MS = 86_400_000


class IdempotencyKey(NamedTuple):
    """A caller's idempotency key, and what tells its request from another."""

    key: str
    fingerprint: str

    def held(self, now: int) -> Idempotency:
        """Return the key as it is written with what was done under it."""
        return Idempotency(self.key, self.fingerprint, now + KEY_TTL_MS)

    def check(self, fingerprint: str) -> None:
        """Raise KeyReused unless this is the request that the key was used for before."""
        if fingerprint != self.fingerprint:
            raise KeyReused("this idempotency key was used for another request")
