"""Shares of a worker's slots: no tenant and no kind may hold all of them.

Of the slots that some kinds share, one tenant holds at most `per_pair` with jobs of one kind,
`per_tenant` with jobs of any, and one kind at most `per_kind` with jobs of any tenant. A claim
skips jobs that would exceed a share, so slots remain for others.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Share(NamedTuple):
    """The most that one tenant, one kind, and one tenant with one kind may hold."""

    per_pair: int
    per_tenant: int
    per_kind: int


class HeldSlots:
    """Slots held under a share, by kind and tenant."""

    def __init__(self, share: Share, held: tuple[tuple[str, str], ...] = ()) -> None:
        self._share = share
        self.pairs = held
        self._by_pair = Counter(held)
        self._by_kind = Counter(kind for kind, _ in held)
        self._by_tenant = Counter(tenant for _, tenant in held)

    @property
    def slack(self) -> int:
        """How many more jobs fit, whatever their kinds and tenants."""
        share, most = self._share, self._most
        return min(
            share.per_pair - most(self._by_pair),
            share.per_tenant - most(self._by_tenant),
            share.per_kind - most(self._by_kind),
        )

    @staticmethod
    def _most(counts: Counter[tuple[str, str]] | Counter[str]) -> int:
        return max(counts.values(), default=0)

    def is_full(self, kind: str, tenant: str) -> bool:
        """Tell whether a job of this kind and tenant would exceed the share."""
        share = self._share
        return (
            self._by_tenant[tenant] >= share.per_tenant
            or self._by_kind[kind] >= share.per_kind
            or self._by_pair[kind, tenant] >= share.per_pair
        )

    def take(self, kind: str, tenant: str) -> None:
        """Count one more slot."""
        self._by_tenant[tenant] += 1
        self._by_kind[kind] += 1
        self._by_pair[kind, tenant] += 1

    def copy(self) -> HeldSlots:
        """Return a copy, to count on from for one claim."""
        return HeldSlots(self._share, self.pairs)
