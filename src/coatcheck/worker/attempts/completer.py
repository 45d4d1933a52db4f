"""The completer: settles attempts, at once if the store is idle, otherwise many in one write.

A few settles are in progress at a time. Attempts that end meanwhile are collected for the next
settle. So the busier the store is, the more jobs share a commit, and a single job on an idle system
waits for nobody. The completer remembers the leases it has not settled yet, so that they are not
mistaken for jobs from a claim whose response was lost.

An attempt is settled after its last report. A report that came later would be rejected, and its
contents lost.

A large result, of the job or of a step, is offloaded to the blob store first. That may take a
while, so its job is settled separately.

While the store is unavailable, a settle is retried until it succeeds (worker/store_retry.py). If
one outcome can never be written, halving the batch finds it, and it fails alone.
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
from coatcheck.worker.failpoints import Failpoint
from coatcheck.worker.store_retry import retry_until_available

log = logging.getLogger(__name__)

# With only one, the store would be idle while the response is on its way.
MAX_IN_PROGRESS = 2
UNEXPECTED_ERROR_PAUSE_S = 1.0


class Completer:
    """The attempts that have ended and are not known to be settled yet."""

    def __init__(
        self,
        engine: Engine,
        write_soon: Callable[[Coroutine[Any, Any, None]], object],
        failpoint: Failpoint,
        reports: Mapping[Lease, asyncio.Task[None]],
        on_settled: Callable[[list[Lease]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._write_soon = write_soon
        self._failpoint = failpoint
        self._reports = reports  # reports in progress
        self._on_settled = on_settled
        self._collected: list[Settlement] = []
        self._in_progress = 0
        self._leases: set[Lease] = set()

    def __contains__(self, lease: Lease) -> bool:
        return lease in self._leases

    def settle_soon(self, settlements: list[Settlement]) -> None:
        """Settle attempts, together with all others that have ended by then."""
        if not settlements:
            return
        self._leases.update(settlement.lease for settlement in settlements)
        if self._reports:
            settlements = [each for each in settlements if not self._wait_for_report(each)]
        large = [settlement for settlement in settlements if has_large_payload(settlement)]
        for settlement in large:
            self._write_soon(self._settle([settlement]))
        if len(large) == len(settlements):
            return
        self._collected += (
            [each for each in settlements if each not in large] if large else settlements
        )
        if self._in_progress < MAX_IN_PROGRESS:
            self._in_progress += 1
            self._write_soon(self._settle_collected())

    def _wait_for_report(self, settlement: Settlement) -> bool:
        """Settle an attempt after its report in progress; return False if there is none."""
        report = self._reports.get(settlement.lease)
        if report is None:
            return False

        def settle(written: asyncio.Task[None]) -> None:
            if not written.cancelled():  # cancelled if the worker has no time left
                self.settle_soon([settlement])

        report.add_done_callback(settle)
        return True

    async def _settle_collected(self) -> None:
        try:
            while self._collected:
                settlements, self._collected = self._collected, []
                await self._settle(settlements)
        finally:
            self._in_progress -= 1

    async def _settle(self, settlements: list[Settlement]) -> None:
        self._failpoint("worker.before_settle")
        try:
            results = await retry_until_available(lambda: self._engine.settle(settlements))
        except (StoreError, TypeError, ValueError) as error:
            await self._settle_halves(settlements, error)
            return
        except Exception as error:
            # An unexpected error says nothing about the jobs. Retry their outcomes, separately.
            log.exception("settle failed", exc_info=error)
            self._write_soon(self._settle_later(settlements))
            return
        self._failpoint("worker.after_settle")
        self._forget([settlement.lease for settlement in settlements])
        for settlement, settled in zip(settlements, results, strict=True):
            if not settled:
                fields = {"job_id": settlement.lease.job_id}
                log.warning("lease lost: outcome discarded", extra=fields)

    def _forget(self, leases: list[Lease]) -> None:
        self._leases.difference_update(leases)
        self._on_settled(leases)

    async def _settle_later(self, settlements: list[Settlement]) -> None:
        await asyncio.sleep(UNEXPECTED_ERROR_PAUSE_S)
        await self._settle(settlements)

    async def _settle_halves(self, settlements: list[Settlement], error: Exception) -> None:
        """Find the one outcome that can never be written, so that the others are settled."""
        if len(settlements) > 1:
            half = len(settlements) // 2
            await self._settle(settlements[:half])
            await self._settle(settlements[half:])
            return
        lease, outcome, _ = settlements[0]
        log.error("outcome not writable", exc_info=error, extra={"job_id": lease.job_id})
        invalid = GaveUp(Failure("invalid-outcome", "the outcome of the job cannot be stored"))
        if outcome == invalid:
            self._forget([lease])
        else:
            await self._settle([Settlement(lease, invalid)])
