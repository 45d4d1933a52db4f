"""Claim jobs for workers, and write what the holders of leases report: steps, progress, outcomes.

Every write names the lease, which is the job and the fence of its claim. The store compares the
fence, so a write under a stale lease changes nothing and returns False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from coatcheck.clock import Clock
from coatcheck.engine.payloads.large_steps import has_large_results, offload_step_results
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.model.job import Claim, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Succeeded
from coatcheck.model.payload import fits_inline
from coatcheck.model.share import HeldSlots
from coatcheck.store.base import ClaimResult, Report, Settlement, Store
from coatcheck.store.shared.fairness import names_in_lanes

if TYPE_CHECKING:
    from coatcheck.engine.maintenance.metrics import Metrics
    from coatcheck.engine.payloads.payloads import PayloadStore
    from coatcheck.engine.resources import ExclusiveResources


class Leases:
    """The verbs of workers, for one set of kinds."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kinds: Mapping[str, Kind],
        new_id: Callable[[], str],
        *,
        payload_store: PayloadStore,
        metrics: Metrics,
        resources: ExclusiveResources,
    ) -> None:
        self._store = store
        self._clock = clock
        self._kinds = kinds
        self._new_id = new_id
        self._payload_store = payload_store
        self._metrics = metrics
        self._resources = resources
        named = kinds.items()
        self._limits = {name: kind.limit for name, kind in named if kind.limit is not None}
        self._age_boosts = {name: kind.age_boosts for name, kind in named if kind.age_boosts}
        self._versions = {name: kind.version for name, kind in named if kind.version is not None}

    def names_of(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Return the names under which a worker registers these kinds, with their versions."""
        return tuple(sorted(names_in_lanes(list(kinds), self._versions)))

    async def claim(
        self, worker_id: str, kinds: Sequence[str], limit: int, held: HeldSlots | None = None
    ) -> ClaimResult:
        """Claim up to `limit` jobs for a worker, within its tenants' shares of the held slots."""
        now = self._clock.now()
        limits = {name: self._limits[name] for name in kinds if name in self._limits}
        for name in self._age_boosts.keys() & limits.keys():
            limits[name] = limits[name]._replace(age_boosts=self._age_boosts[name]())
        versions = {name: self._versions[name] for name in kinds if name in self._versions}
        claimed = await self._store.workers.claim(
            worker_id, kinds, limit, now, limits, versions, *([] if held is None else [held])
        )
        for claim in claimed.claims:
            self._metrics.started(claim.kind, now - claim.run_at)
        return claimed

    def child_of(self, claim: Claim, kind: str, input_: str) -> JobInsert:
        """Check a job that a handler spawns; return its row, to be written with the step."""
        submission = Submission(
            kind,
            input_,
            tenant=claim.lease.tenant,
            correlation_id=claim.correlation_id,
            traceparent=claim.traceparent,
        )
        job = prepare(submission, self._kinds, self._new_id(), self._clock.now())
        return job._replace(terms=job.terms._replace(parent=claim.lease.job_id))

    async def report(self, lease: Lease, report: Report) -> bool:
        """Write a running job's steps, progress and events; False if the lease is stale.

        A report without large step results may be written from any event loop, such as the loop of
        the handlers: each of their steps waits for this write, and a round trip through the
        worker's loop takes as long as the write. Offloading needs the engine's own loop.
        """
        if has_large_results(self._payload_store, report.steps):
            report = await offload_step_results(self._payload_store, lease, report)
        return await self._store.workers.report(lease, report, self._clock.now())

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Write the outcomes of attempts; False for each whose lease is stale."""
        if any(has_large_payload(each) for each in settlements):
            settlements = await self._payload_store.offload_results(settlements)
            settlements = [await self._with_report_offloaded(each) for each in settlements]
        began = self._clock.monotonic()
        answers = await self._store.workers.settle(settlements, self._clock.now())
        self._metrics.store_latency.add(self._clock.monotonic() - began)
        if self._resources.in_use:
            for each in settlements:
                self._resources.release(each.lease)
        return answers

    async def _with_report_offloaded(self, settlement: Settlement) -> Settlement:
        lease, _, report = settlement
        if report is None:
            return settlement
        report = await offload_step_results(self._payload_store, lease, report)
        return settlement._replace(report=report)


def has_large_payload(settlement: Settlement) -> bool:
    """Tell whether the result of an attempt, or of one of its steps, is too large for a row."""
    _, outcome, report = settlement
    if isinstance(outcome, Succeeded) and not fits_inline(outcome.result):
        return True
    return report is not None and any(
        step.result is not None and not fits_inline(step.result) for step in report.steps
    )
