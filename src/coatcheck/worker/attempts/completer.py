"""Writing down how attempts ended: at once where the store is idle, else many together.

A few settles are on their way at a time. What ends meanwhile is gathered and goes with the next, so
the busier the store is, the more jobs share a commit; a single job on an idle system waits for
nobody. What is on its way or gathered is remembered by its lease, so that nobody takes it for a job
that was claimed and forgotten.

An attempt's end is written after what it has said before: a report that came too late would be
refused, and what it says lost.

A large result, of the job or of a step, goes to the blob store first, which may take a while: it is
settled by itself.

While the store is down a settle is tried until it succeeds (worker/store_retry.py). One outcome
that can never be written is found by halving its batch, and fails alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.engine.leases import has_large_payload
from coatcheck.errors import StoreError
from coatcheck.model.job import Failure, Lease
from coatcheck.model.outcome import GaveUp
from coatcheck.store.base import Settlement
from coatcheck.worker.failpoints import Probe
from coatcheck.worker.store_retry import persist

log = logging.getLogger(__name__)

# One would leave the store idle while its answer travels.
MOST_ON_THEIR_WAY = 2
UNHEARD_OF_PAUSE_S = 1.0


class Completer:
    """What has ended and is not known to be written yet."""

    def __init__(
        self,
        engine: Engine,
        write_soon: Callable[[Coroutine[Any, Any, None]], object],
        probe: Probe,
        reporting: Mapping[Lease, asyncio.Task[None]],
        on_settled: Callable[[list[Lease]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._write_soon = write_soon
        self._probe = probe
        self._reporting = reporting  # reports on their way
        self._on_settled = on_settled
        self._gathered: list[Settlement] = []
        self._on_their_way = 0
        self._leases: set[Lease] = set()

    def __contains__(self, lease: Lease) -> bool:
        return lease in self._leases

    def soon(self, settlements: list[Settlement]) -> None:
        """Have these written, together with whatever else has ended by then."""
        if not settlements:
            return
        self._leases.update(settlement.lease for settlement in settlements)
        if self._reporting:
            settlements = [each for each in settlements if not self._follows_report(each)]
        large = [settlement for settlement in settlements if has_large_payload(settlement)]
        for settlement in large:
            self._write_soon(self._settle([settlement]))
        if len(large) == len(settlements):
            return
        self._gathered += (
            [each for each in settlements if each not in large] if large else settlements
        )
        if self._on_their_way < MOST_ON_THEIR_WAY:
            self._on_their_way += 1
            self._write_soon(self._settle_gathered())

    def _follows_report(self, settlement: Settlement) -> bool:
        """Tell whether an end has to wait for a report; it is written once that is."""
        report = self._reporting.get(settlement.lease)
        if report is None:
            return False

        def settle(written: asyncio.Task[None]) -> None:
            if not written.cancelled():  # as all writes are when the worker has no more time
                self.soon([settlement])

        report.add_done_callback(settle)
        return True

    async def _settle_gathered(self) -> None:
        try:
            while self._gathered:
                settlements, self._gathered = self._gathered, []
                await self._settle(settlements)
        finally:
            self._on_their_way -= 1

    async def _settle(self, settlements: list[Settlement]) -> None:
        self._probe("worker.before_settle")
        try:
            answers = await persist(lambda: self._engine.settle(settlements))
        except (StoreError, TypeError, ValueError) as error:
            await self._settle_apart(settlements, error)
            return
        except Exception as error:
            # Unheard of: no verdict on the jobs. What they did is kept, and tried again, apart
            # from everything else.
            log.exception("settling failed", exc_info=error)
            self._write_soon(self._settle_later(settlements))
            return
        self._probe("worker.after_settle")
        self._forget([settlement.lease for settlement in settlements])
        for settlement, settled in zip(settlements, answers, strict=True):
            if not settled:
                fields = {"job_id": settlement.lease.job_id}
                log.warning("a job had been taken away; its outcome is dropped", extra=fields)

    def _forget(self, leases: list[Lease]) -> None:
        self._leases.difference_update(leases)
        self._on_settled(leases)

    async def _settle_later(self, settlements: list[Settlement]) -> None:
        await asyncio.sleep(UNHEARD_OF_PAUSE_S)
        await self._settle(settlements)

    async def _settle_apart(self, settlements: list[Settlement], error: Exception) -> None:
        """One of these can never be written: let the others not suffer for it."""
        if len(settlements) > 1:
            half = len(settlements) // 2
            await self._settle(settlements[:half])
            await self._settle(settlements[half:])
            return
        lease, outcome, _ = settlements[0]
        log.error("an outcome cannot be written", exc_info=error, extra={"job_id": lease.job_id})
        refused = GaveUp(Failure("invalid-outcome", "how the job ended could not be written down"))
        if outcome == refused:
            self._forget([lease])
        else:
            await self._settle([Settlement(lease, refused)])
