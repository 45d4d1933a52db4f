"""Quotas: how much a tenant may have, and may hand in.

What a tenant has is counted by the store, at most once a second for a tenant that submits, and not
at all for one without quotas. In between this process adds what it takes in itself. So a submit
asks the store nothing in the common case; several processes together may take in slightly more than
the quota, as much as the others do within that second. Nobody is refused by an old count: before
that the store is asked again.

Jobs that the system makes itself, ticks of schedules and children of jobs, are counted and never
refused.
"""

from __future__ import annotations

import asyncio
import math

from coatcheck.clock import Clock
from coatcheck.errors import QuotaExceeded
from coatcheck.model.access import Load, Quotas
from coatcheck.store.base import Store

FRESH_S = 1.0
# A count is not repeated sooner, however often somebody is refused, nor until so many times as long
# has passed as it took.
LEAST_S = 0.05
REST = 50
LONGEST_REST_S = 60.0
WINDOW_S = 60
LATER_S = 5

_RATES = frozenset({"submits_per_minute", "payload_bytes"})
_WORDS = {
    "jobs_waiting": "{limit:,} jobs waiting",
    "jobs_running": "{limit:,} jobs running",
    "submits_per_minute": "{limit:,} jobs handed in within a minute",
    "payload_bytes": "{limit:,} bytes of inputs handed in within a minute",
    "stored_bytes": "{limit:,} bytes kept",
}


class _Count:
    """What one tenant has: as the store told, and what was taken in since."""

    def __init__(self) -> None:
        self.load = Load()
        self.quotas: Quotas | None = None  # for which it was counted
        self.read_at = -math.inf
        self.rest_s = LEAST_S
        self.stale_at = -math.inf
        self.jobs = 0
        self.bytes = 0
        # Up to how much taken in since nothing is over.
        self.room_for_jobs = -math.inf
        self.room_for_bytes = -math.inf
        self.reading: asyncio.Task[None] | None = None


class QuotaTracker:
    """The counts of one process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    def try_reserve(self, tenant: str, quotas: Quotas, jobs: int, size: int) -> bool:
        """Note jobs that fit by what is known; False where the store has to be asked."""
        count = self._counts.get(tenant)
        if count is None or (count.quotas is not quotas and count.quotas != quotas):
            return False
        if self._clock.monotonic() >= count.stale_at:
            return False
        more, larger = count.jobs + jobs, count.bytes + size
        if more > count.room_for_jobs or larger > count.room_for_bytes:
            return False
        count.jobs = more
        count.bytes = larger
        return True

    async def reserve(self, tenant: str, quotas: Quotas, jobs: int, size: int) -> None:
        """Note jobs that are about to be submitted; raises QuotaExceeded for too many."""
        count = self._counts.get(tenant)
        if count is None:
            count = self._counts[tenant] = _Count()
        if self._clock.monotonic() >= count.stale_at or count.quotas != quotas:
            await self._read(tenant, quotas, count)
        over = _over(count, quotas, jobs, size)
        if over is not None and self._clock.monotonic() - count.read_at >= count.rest_s:
            await self._read(tenant, quotas, count)
            over = _over(count, quotas, jobs, size)
        if over is not None:
            raise _refusal(tenant, over, quotas)
        count.jobs += jobs
        count.bytes += size

    async def check_storage(self, tenant: str, quotas: Quotas, size: int) -> int | None:
        """Return how many bytes more a tenant may have kept, None for as many as it likes; raises
        QuotaExceeded where a file of this size does not fit. Counted anew for each file.
        """
        most = quotas.stored_bytes
        if most is None:
            return None
        load = await self._store.access.measure_load(
            tenant, Quotas(stored_bytes=most), self._clock.now()
        )
        room = most - load.stored_bytes
        if room <= 0 or size > room:
            raise _refusal(tenant, "stored_bytes", quotas)
        return room

    def release(self, tenant: str, jobs: int, size: int) -> None:
        """Forget jobs that were not submitted after all."""
        count = self._counts[tenant]
        count.jobs = max(0, count.jobs - jobs)
        count.bytes = max(0, count.bytes - size)

    async def _read(self, tenant: str, quotas: Quotas, count: _Count) -> None:
        if count.reading is None or count.reading.done():
            count.reading = asyncio.create_task(self._count(tenant, quotas, count))
        await asyncio.shield(count.reading)

    async def _count(self, tenant: str, quotas: Quotas, count: _Count) -> None:
        # What is taken in while the store counts may be in its answer or not: it stays noted.
        jobs, size, began = count.jobs, count.bytes, self._clock.monotonic()
        count.load = await self._store.access.measure_load(tenant, quotas, self._clock.now())
        count.quotas = quotas
        count.read_at = self._clock.monotonic()
        count.rest_s = min(LONGEST_REST_S, max(LEAST_S, REST * (count.read_at - began)))
        count.stale_at = count.read_at + max(FRESH_S, count.rest_s)
        count.jobs -= jobs
        count.bytes -= size
        count.room_for_jobs, count.room_for_bytes = _room(count.load, quotas)


def _over(count: _Count, quotas: Quotas, jobs: int, size: int) -> str | None:
    load, more, larger = count.load, count.jobs + jobs, count.bytes + size
    limit = quotas.jobs_waiting
    if limit is not None and load.jobs_waiting + more > limit:
        return "jobs_waiting"
    if quotas.jobs_running is not None and load.jobs_running >= quotas.jobs_running:
        return "jobs_running"
    limit = quotas.submits_per_minute
    if limit is not None and load.submits_per_minute + more > limit:
        return "submits_per_minute"
    if quotas.payload_bytes is not None and load.payload_bytes + larger > quotas.payload_bytes:
        return "payload_bytes"
    if quotas.stored_bytes is not None and load.stored_bytes + larger > quotas.stored_bytes:
        return "stored_bytes"
    return None


def _room(load: Load, quotas: Quotas) -> tuple[float, float]:
    """Return how many jobs and bytes may be taken in before anything is over."""
    if quotas.jobs_running is not None and load.jobs_running >= quotas.jobs_running:
        return -math.inf, -math.inf
    return (
        _least(
            (quotas.jobs_waiting, load.jobs_waiting),
            (quotas.submits_per_minute, load.submits_per_minute),
        ),
        _least(
            (quotas.payload_bytes, load.payload_bytes),
            (quotas.stored_bytes, load.stored_bytes),
        ),
    )


def _least(*limits: tuple[int | None, int]) -> float:
    return min((limit - has for limit, has in limits if limit is not None), default=math.inf)


def _refusal(tenant: str, name: str, quotas: Quotas) -> QuotaExceeded:
    limit: int = getattr(quotas, name)
    window = WINDOW_S if name in _RATES else None
    # Within a window room comes back evenly; of the rest nobody knows when.
    later = (
        LATER_S if window is None else max(1, min(WINDOW_S, math.ceil(WINDOW_S / max(1, limit))))
    )
    words = _WORDS[name].format(limit=limit)
    return QuotaExceeded(f"the quota of tenant {tenant} is {words}", name, limit, later, window)
