"""Quotas: how much a tenant may have and submit.

The store measures a tenant's load, at most once a second for a tenant that submits, and never for
one without quotas. In between, this process adds the jobs it accepts itself. So in the common case
a submit does not query the store. Several processes together may accept slightly more than the
quota: as much as the others accept within that second. No submit is rejected because of an old
count; the store is queried again first.

Jobs that the system submits itself, ticks of schedules and children of jobs, are counted and never
rejected.
"""

from __future__ import annotations

import asyncio
import math

from coatcheck.clock import Clock
from coatcheck.errors import QuotaExceeded
from coatcheck.model.access import Load, Quotas
from coatcheck.store.base import Store

FRESH_S = 1.0
# The load is not measured again sooner than this, however many submits are rejected, nor before
# `REST` times the duration of the last measurement has passed.
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
    """The load of one tenant: as the store measured it, plus the jobs accepted since."""

    def __init__(self) -> None:
        self.load = Load()
        self.quotas: Quotas | None = None  # the quotas it was measured for
        self.read_at = -math.inf
        self.rest_s = LEAST_S
        self.stale_at = -math.inf
        self.jobs = 0
        self.bytes = 0
        # How much can be accepted since the measurement before any quota is exceeded.
        self.room_for_jobs = -math.inf
        self.room_for_bytes = -math.inf
        self.reading: asyncio.Task[None] | None = None


class QuotaTracker:
    """The quota counts of one process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    def try_reserve(self, tenant: str, quotas: Quotas, jobs: int, size: int) -> bool:
        """Count jobs that fit by the current counts; return False if the store must be queried."""
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
        """Count jobs that are about to be submitted; raises QuotaExceeded."""
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
        """Return how many more bytes a tenant may store, or None if there is no quota.

        The load is measured for each file. Raises QuotaExceeded if a file of this size does not
        fit.
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
        """Remove jobs from the count that were not submitted after all."""
        count = self._counts[tenant]
        count.jobs = max(0, count.jobs - jobs)
        count.bytes = max(0, count.bytes - size)

    async def _read(self, tenant: str, quotas: Quotas, count: _Count) -> None:
        if count.reading is None or count.reading.done():
            count.reading = asyncio.create_task(self._count(tenant, quotas, count))
        await asyncio.shield(count.reading)

    async def _count(self, tenant: str, quotas: Quotas, count: _Count) -> None:
        # Jobs accepted during the measurement may be in its result or not, so they stay counted.
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
    """Return how many jobs and bytes can be accepted before any quota is exceeded."""
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
    # Within a window, room returns evenly; for the other quotas the time is unknown.
    later = (
        LATER_S if window is None else max(1, min(WINDOW_S, math.ceil(WINDOW_S / max(1, limit))))
    )
    words = _WORDS[name].format(limit=limit)
    return QuotaExceeded(f"the quota of tenant {tenant} is {words}", name, limit, later, window)
