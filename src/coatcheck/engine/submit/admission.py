"""Writing what somebody was let in to submit: within the tenant's quotas, under the epoch it was
let in by. Where the epoch has moved the caller is let in again first, by what holds now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from coatcheck.clock import Clock
from coatcheck.engine.auth import Admission
from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.quotas import QuotaTracker
from coatcheck.errors import AccessChanged, QuotaExceeded
from coatcheck.model.access import Quotas
from coatcheck.model.job import JobInsert
from coatcheck.model.usage import bytes_of
from coatcheck.store.base import ExistingSubmission, FinishedJob, Store

# Writes under an epoch; what is returned is what another request has written instead.
Write = Callable[[int | None], Awaitable[ExistingSubmission | None]]


class AdmissionControl:
    """The way from a checked submission into the store."""

    def __init__(self, store: Store, clock: Clock, quotas: QuotaTracker, metrics: Metrics) -> None:
        self._store = store
        self._clock = clock
        self._quotas = quotas
        self._metrics = metrics

    async def write(
        self, job: JobInsert, now: int, once: IdempotencyKey | None, admission: Admission | None
    ) -> ExistingSubmission | None:
        """Make a job durable; None stands for whoever needs nobody to let them in."""
        held = None if once is None else once.held(now)
        return await self._let_in(
            job, now, once, admission, lambda epoch: self._store.submit(job, now, held, epoch)
        )

    async def write_ended(
        self, job: JobInsert, ended: FinishedJob, now: int, admission: Admission | None
    ) -> None:
        """Make a job durable that has ended."""

        async def write(epoch: int | None) -> None:
            await self._store.submit_finished(job, ended, now, epoch)

        await self._let_in(job, now, None, admission, write)

    async def _let_in(
        self,
        job: JobInsert,
        now: int,
        once: IdempotencyKey | None,
        admission: Admission | None,
        write: Write,
    ) -> ExistingSubmission | None:
        while True:
            try:
                return await self._write(job, now, once, admission, write)
            except AccessChanged:
                assert admission is not None, "who was not let in names no epoch"
                admission = await admission.renew()  # and again under the same id: it is one job

    async def _write(
        self,
        job: JobInsert,
        now: int,
        once: IdempotencyKey | None,
        admission: Admission | None,
        write: Write,
    ) -> ExistingSubmission | None:
        quotas = None if admission is None else admission.quotas
        if quotas is not None and not self._quotas.try_reserve(
            job.tenant, quotas, 1, bytes_of(job.input)
        ):
            earlier = await self._take(quotas, [job], once, now)
            if earlier is not None:
                return earlier
        began = self._clock.monotonic()
        try:
            earlier = await write(None if admission is None else admission.epoch)
        except BaseException:
            self._give_back(quotas, [job])
            raise
        self._metrics.store_latency.add(self._clock.monotonic() - began)
        if earlier is not None:
            self._give_back(quotas, [job])
        return earlier

    async def write_batch(
        self,
        jobs: Sequence[JobInsert],
        now: int,
        once: IdempotencyKey | None,
        admission: Admission | None,
    ) -> ExistingSubmission | None:
        """Make many jobs durable, all or none. Its request has been looked at a moment ago, and so
        it names no epoch.
        """
        quotas = None if admission is None else admission.quotas
        if quotas is not None:
            earlier = await self._take(quotas, jobs, once, now)
            if earlier is not None:
                return earlier
        try:
            held = None if once is None else once.held(now)
            earlier = await self._store.submit_batch(jobs, now, held)
        except BaseException:
            self._give_back(quotas, jobs)
            raise
        if earlier is not None:
            self._give_back(quotas, jobs)
        return earlier

    async def _take(
        self, quotas: Quotas, jobs: Sequence[JobInsert], once: IdempotencyKey | None, now: int
    ) -> ExistingSubmission | None:
        """Note jobs against their tenant's quotas. A request that is repeated takes nothing, so
        what it has made before is returned where it would be refused.
        """
        tenant = jobs[0].tenant
        try:
            await self._quotas.reserve(tenant, quotas, len(jobs), _bytes_of(jobs))
        except QuotaExceeded:
            earlier = None if once is None else await self._store.earlier(tenant, once.key, now)
            if earlier is None:
                raise
            return earlier
        return None

    def _give_back(self, quotas: Quotas | None, jobs: Sequence[JobInsert]) -> None:
        if quotas is not None:
            self._quotas.release(jobs[0].tenant, len(jobs), _bytes_of(jobs))


def _bytes_of(jobs: Sequence[JobInsert]) -> int:
    return sum(bytes_of(job.input) for job in jobs)
