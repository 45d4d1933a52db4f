"""A caller's idempotency key."""

from __future__ import annotations

from typing import NamedTuple

from coatcheck.errors import KeyReused
from coatcheck.store.base import Idempotency

# How long a key is kept, from its first request.
KEY_TTL_MS = 86_400_000


class IdempotencyKey(NamedTuple):
    """A caller's idempotency key, and the fingerprint of its request."""

    key: str
    fingerprint: str

    def stored(self, now: int) -> Idempotency:
        """Return the key as it is stored, with its expiry."""
        return Idempotency(self.key, self.fingerprint, now + KEY_TTL_MS)

    def check(self, fingerprint: str) -> None:
        """Raise KeyReused unless the key was used for the same request."""
        if fingerprint != self.fingerprint:
            raise KeyReused("this idempotency key was used for another request")
