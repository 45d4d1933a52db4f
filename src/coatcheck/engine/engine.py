"""Engine: what every door calls. It adds the clock and the kinds to the store's verbs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from coatcheck.clock import Clock, SystemClock
from coatcheck.engine.submission import Submission, as_submitted, prepare
from coatcheck.engine.watch import Watch
from coatcheck.errors import InvalidInput
from coatcheck.ids import UlidGenerator
from coatcheck.model.event import Event
from coatcheck.model.job import DEFAULT_TENANT, Job, Lease
from coatcheck.model.kind import Kind
from coatcheck.store.base import (
    BATCH_LIMIT,
    Claimed,
    JobFilter,
    QueueStatus,
    Report,
    Settlement,
    Store,
)

log = logging.getLogger(__name__)


class Engine:
    """The verbs on jobs, for one set of kinds on one store."""

    def __init__(self, store: Store, kinds: Mapping[str, Kind], clock: Clock | None = None) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock or SystemClock()
        self.new_id = UlidGenerator(self.clock)
        self._watch = Watch(store)

    async def submit(self, submission: Submission) -> Job:
        """Check a job, make it durable, and return it as it stands then."""
        now = self.clock.now()
        job = prepare(submission, self.kinds, self.new_id(), now)
        await self.store.submit(job, now)
        return as_submitted(job)

    async def submit_batch(self, submissions: Sequence[Submission]) -> list[Job]:
        """Check every job, then make all of them durable, or none; return them in order."""
        if len(submissions) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs")
        now = self.clock.now()
        jobs = [prepare(asked, self.kinds, self.new_id(), now) for asked in submissions]
        await self.store.submit_batch(jobs, now)
        return [as_submitted(job) for job in jobs]

    async def get(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job; raises NotFound or Gone."""
        return await self.store.get(tenant, job_id)

    async def wait(self, job_id: str, timeout: float, tenant: str = DEFAULT_TENANT) -> Job:
        """Read a job when it has ended, or as it stands when the time runs out."""
        return await self._watch.until_ended(tenant, job_id, timeout)

    def release_waiters(self) -> None:
        """Let everybody who waits for a job go: this process is about to stop."""
        self._watch.release()

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        return await self.store.list_jobs(which)

    async def events(
        self, job_id: str, after: int = 0, limit: int = 1000, tenant: str = DEFAULT_TENANT
    ) -> list[Event]:
        """Read a job's log."""
        return await self.store.events(tenant, job_id, after, limit)

    async def cancel(self, job_id: str, tenant: str = DEFAULT_TENANT) -> Job:
        """Cancel a job: at once if nobody runs it, else its worker is told."""
        return await self.store.cancel(tenant, job_id, self.clock.now())

    async def queues(self) -> list[QueueStatus]:
        """List the queues and how deep they are."""
        return await self.store.queues()

    async def pause_queue(self, name: str) -> None:
        """Stop claims from a queue; what runs goes on."""
        await self.store.pause_queue(name, True, self.clock.now())

    async def resume_queue(self, name: str) -> None:
        """Let a paused queue go on."""
        await self.store.pause_queue(name, False, self.clock.now())

    # --- for workers

    async def claim(self, worker_id: str, kinds: Sequence[str], limit: int) -> Claimed:
        """Take up to `limit` jobs for a worker."""
        return await self.store.claim(worker_id, kinds, limit, self.clock.now())

    async def report(self, lease: Lease, report: Report) -> bool:
        """Write what a running job says of itself; False when the lease is stale."""
        return await self.store.report(lease, report, self.clock.now())

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts; False for each whose lease is stale."""
        return await self.store.settle(settlements, self.clock.now())
