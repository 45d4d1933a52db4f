"""Retention of the audit trail."""

from __future__ import annotations

from coatcheck.clock import Clock
from coatcheck.ids import first_ulid_at
from coatcheck.store.base import Store

DAY_MS = 86_400_000
# Entries are kept for months, so an hourly check is enough.
EVERY_S = 3_600.0
AT_ONCE = 500


class AuditRetention:
    """The sweep chore that deletes expired audit entries."""

    def __init__(self, store: Store, clock: Clock, days: float) -> None:
        self._store = store
        self._clock = clock
        self._keep_ms = round(days * DAY_MS)
        self._next = clock.monotonic()

    async def sweep(self) -> None:
        """Delete expired entries in slices, at most once an hour."""
        if self._clock.monotonic() < self._next:
            return
        before = first_ulid_at(self._clock.now() - self._keep_ms)
        while await self._store.audit.delete_entries(before, AT_ONCE) == AT_ONCE:
            continue
        self._next = self._clock.monotonic() + EVERY_S
