"""The sweep: removes lost workers and does the work that falls due with time.

Any number of processes sweep the same store independently, without a leader. Every action is
idempotent, and the store rejects an action that another process has already done.

A worker is lost if its process is known to be dead, or if its heartbeat count has not changed for a
whole lease *on this sweeper's monotonic clock*, measured from when this sweeper first saw that
count. So neither a jump of the wall clock nor a difference between two machines' clocks can lose a
worker, and an orphaned job is queued again within one lease and two sweeps.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from coatcheck.clock import Clock
from coatcheck.engine.payloads.payloads import PayloadStore
from coatcheck.errors import StoreError
from coatcheck.store.base import Store

log = logging.getLogger(__name__)

# Work to do with every sweep, besides that of the store and the blobs.
Chore = Callable[[], Awaitable[None]]


class Sweeper:
    """The sweep of one process."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        lease_s: float,
        sweep_s: float,
        payload_store: PayloadStore | None = None,
        chores: Sequence[Chore] = (),
    ) -> None:
        self._store = store
        self._payload_store = payload_store
        self._chores = chores
        self._clock = clock
        self._lease_s = lease_s
        self._sweep_s = sweep_s
        # Worker id -> (its count when it last changed, when this process saw the change).
        self._seen: dict[str, tuple[int, float]] = {}

    async def run(self) -> None:
        """Sweep until cancelled; wait out any outage of the store."""
        while True:
            try:
                await self.sweep()
            except StoreError as error:
                log.warning("sweep failed", extra={"why": str(error)})
            # Jitter, so that many processes do not sweep at the same moment.
            await asyncio.sleep(self._sweep_s * random.uniform(0.8, 1.0))  # noqa: S311 - no secret

    async def sweep(self) -> None:
        """Sweep once."""
        await self._remove_lost_workers()
        await self._sweep_store()
        if self._payload_store is not None:
            await self._payload_store.sweep()
        for chore in self._chores:
            await self._do(chore)
        if not await self._store.maintenance.erase_deleted():
            log.warning("deleted data not erased yet; will retry")

    async def _do(self, chore: Chore) -> None:
        try:
            await chore()
        except StoreError:
            raise
        except Exception as error:
            # Other packages' code: a failure must not stop the other chores or the next sweep.
            log.exception("maintenance task failed", exc_info=error)

    async def _sweep_store(self) -> None:
        while True:
            swept = await self._store.maintenance.sweep(self._clock.now())
            if swept.expired or swept.deleted or swept.batches:
                log.info(
                    "swept",
                    extra={
                        "expired": swept.expired,
                        "deleted": swept.deleted,
                        "batches": swept.batches,
                    },
                )
            if swept.expired:
                await self._store.maintenance.increment_counters({"jobs_expired": swept.expired})
            if not swept.more:
                return

    async def _remove_lost_workers(self) -> None:
        now = self._clock.monotonic()
        seen: dict[str, tuple[int, float]] = {}
        for info, known_dead in await self._store.workers.list_workers():
            beats, since = self._seen.get(info.id, (info.beats, now))
            if beats != info.beats:
                since = now
            seen[info.id] = (info.beats, since)
            if known_dead or now - since >= self._lease_s:
                jobs = await self._store.workers.remove_worker(
                    info.id, info.beats, self._clock.now()
                )
                if jobs is None:
                    continue  # it sent another heartbeat, or another process was faster
                await self._store.maintenance.increment_counters({"lapsed_leases": 1})
                log.warning(
                    "worker lost",
                    extra={
                        "worker": info.id,
                        "host": info.host,
                        "worker_pid": info.pid,
                        "jobs": jobs,
                        "known_dead": known_dead,
                    },
                )
        self._seen = seen
