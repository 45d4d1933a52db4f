"""Writing the reports of running jobs (progress, phase, log, output), a few times a second at most.

A job's reports are written one after the other, in the order in which they were made. Its outcome
is settled after its last report (attempts/completer.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.model.job import Lease
from coatcheck.worker.steps.requests import LocalRequests
from coatcheck.worker.store_retry import retry_until_available

EVERY_S = 0.1


class Reporter:
    """Collects the attempts that have something to report, and writes their reports."""

    def __init__(
        self,
        engine: Engine,
        write_soon: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        held: Container[Lease],
        on_lease_lost: Callable[[Lease], None],
    ) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._write_soon = write_soon
        self._held = held
        self._on_lease_lost = on_lease_lost
        self._scheduled: list[LocalRequests] = []
        self.in_progress: dict[Lease, asyncio.Task[None]] = {}

    def schedule(self, requests: LocalRequests) -> None:
        """Write an attempt's report soon. Called from the handler's thread."""
        if not requests.report_scheduled:
            requests.report_scheduled = True
            self._loop.call_soon_threadsafe(self._add, requests)

    def _add(self, requests: LocalRequests) -> None:
        self._scheduled.append(requests)
        if len(self._scheduled) == 1:
            self._loop.call_later(EVERY_S, self._write_all)

    def _write_all(self) -> None:
        scheduled, self._scheduled = self._scheduled, []
        for requests in scheduled:
            requests.report_scheduled = False
            lease = requests.claim.lease
            if lease in self._held:
                report = self._write_soon(self._write(requests, self.in_progress.get(lease)))
                self.in_progress[lease] = report
                report.add_done_callback(partial(self._remove, lease))

    def _remove(self, lease: Lease, report: asyncio.Task[None]) -> None:
        if self.in_progress.get(lease) is report:
            del self.in_progress[lease]

    async def _write(self, requests: LocalRequests, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        lease = requests.claim.lease
        # Set before the report is taken: a step that then finds nothing to take waits for this.
        written: Future[None] = Future()
        requests.report_in_progress = written
        try:
            report = requests.context.take_report()
            if report is not None and not await retry_until_available(
                lambda: self._engine.report(lease, report)
            ):
                self._on_lease_lost(lease)
        finally:
            requests.report_in_progress = None
            written.set_result(None)
