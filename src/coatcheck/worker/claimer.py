"""Claiming jobs for a worker's free slots.

- A claim happens on a wake-up (a job was submitted, a slot came free, a delayed job is due), and
  every few seconds as a safety net.
- Each slot pool (slots/pool.py) claims for its own kinds, and at most as many jobs as it has use
  for.
- If the response to a claim is lost, the store may hold jobs for this worker that it never
  received. The next claim releases them first. Claims never overlap, so no job in transit is
  mistaken for one of these.
- If the worker was declared lost while a claim was in progress, the claimed jobs are discarded: the
  claim was made under the worker's former id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from coatcheck.engine.engine import Engine
from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import Claim, Lease
from coatcheck.model.outcome import Released
from coatcheck.model.share import HeldSlots
from coatcheck.settings import Settings
from coatcheck.store.base import Settlement, Topic
from coatcheck.worker.failpoints import Failpoint
from coatcheck.worker.heartbeat import Heartbeat
from coatcheck.worker.slots.pool import SlotPool
from coatcheck.worker.store_retry import StorePoll

log = logging.getLogger(__name__)

# Poll this often without a wake-up.
POLL_S = 10.0


class Claimer:
    """Claims jobs for slot pools, and hands them to `on_claimed`."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        pools: Sequence[SlotPool],
        failpoint: Failpoint,
        heartbeat: Heartbeat,
        *,
        is_known: Callable[[Lease], bool],
        on_claimed: Callable[[SlotPool, list[Claim]], None],
    ) -> None:
        self._engine = engine
        self._pools = pools
        self._failpoint = failpoint
        self._heartbeat = heartbeat
        self._is_known = is_known
        self._on_claimed = on_claimed
        self._loop = asyncio.get_running_loop()
        self._poll = StorePoll(settings.poll_s, settings.longest_poll_s)
        self._wake = asyncio.Event()
        self._response_lost = False
        self._times_lost = 0  # how often the worker was declared lost
        self._stopping = False

    async def run(self) -> None:
        """Claim until `stop` is called."""
        poll = self._poll
        while not self._stopping:
            try:
                # The pool that found jobs last goes first: it most likely finds some again.
                for pool in sorted(self._pools, key=lambda pool: -pool.last_found_at):
                    if pool.should_claim:
                        pool.poll_at = self._loop.time() + await self._claim_for(pool)
            except StoreUnavailable as error:
                await poll.pause(error)
                continue
            poll.record_success()
            until = min((pool.poll_at for pool in self._pools), default=None)
            try:
                async with asyncio.timeout_at(until):
                    await self._wake.wait()
            except TimeoutError:
                self.wake_all()
            self._wake.clear()

    async def follow_submits(self) -> None:
        """Wake all pools whenever a job becomes claimable."""
        signal = self._engine.store.subscribe(Topic.WORK)
        with contextlib.closing(signal):
            while True:
                await signal.wait()
                self.wake_all()

    def wake(self, pool: SlotPool) -> None:
        """Have a pool claim soon."""
        pool.should_claim = True
        self._wake.set()

    def wake_all(self) -> None:
        """Have every pool claim soon."""
        for pool in self._pools:
            pool.should_claim = pool.others_may_wait = True
        self._wake.set()

    def stop(self) -> None:
        """Claim no more, once the claim in progress has returned."""
        self._stopping = True
        self._wake.set()

    def discard_claim_in_progress(self) -> None:
        """Discard the jobs of a claim in progress: the worker was declared lost."""
        self._times_lost += 1

    async def _claim_for(self, pool: SlotPool) -> float:
        """Claim jobs for a pool; return the seconds until it needs to poll."""
        wanted = limit = pool.claim_limit()
        held = pool.held_slots()
        if held is not None and held.slack > 0:
            # Claims fewer jobs than would exceed a share, so the store need not check shares.
            limit, held = min(wanted, held.slack), None
        if limit <= 0 or (held is not None and not pool.others_may_wait):
            pool.should_claim = False
            pool.more_may_wait = True
            return POLL_S
        if self._response_lost:
            await self._release_unknown()
        pool.should_claim = False
        if held is not None:
            pool.others_may_wait = False  # unless a wake-up comes before the response
        claimed = await self._send_claim(pool, limit, held)
        if held is not None:
            pool.others_may_wait |= pool.more_may_wait
            pool.more_may_wait = True  # jobs that wait for their share
        elif limit < wanted and pool.more_may_wait:
            self.wake(pool)
        if claimed is None:
            return POLL_S
        return min(POLL_S, max(0, claimed - self._engine.clock.now()) / 1000)

    async def _send_claim(self, pool: SlotPool, limit: int, held: HeldSlots | None) -> int | None:
        """Claim up to `limit` jobs; return when the next delayed job is due."""
        metrics, poll = self._engine.metrics, self._poll
        self._response_lost = True
        times_lost = self._times_lost  # read together with the id that claims
        try:
            claimed = await self._engine.claim(self._heartbeat.worker_id, pool.kinds, limit, held)
        except StoreUnavailable:
            pool.should_claim = pool.others_may_wait = True
            metrics.worker_polled("failed", poll.interval_s)
            raise
        self._response_lost = False
        metrics.worker_polled("found" if claimed.claims else "nothing", poll.interval_s)
        self._failpoint("worker.claimed")
        if times_lost == self._times_lost:
            self._on_claimed(pool, claimed.claims)
        pool.record_claim(len(claimed.claims), limit)
        return claimed.next_due

    async def _release_unknown(self) -> None:
        """Release jobs from a claim whose response was lost. Must not run during a claim."""
        held = await self._engine.store.workers.list_held_jobs(self._heartbeat.worker_id)
        unknown = [item.lease for item in held if not self._is_known(item.lease)]
        if unknown:
            log.warning("claim response lost: jobs released", extra={"jobs": len(unknown)})
            await self._engine.settle([Settlement(lease, Released()) for lease in unknown])
        self._response_lost = False
