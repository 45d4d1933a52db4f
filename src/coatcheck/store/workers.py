"""The workers part of a store: registration, claims, reports and settlements.

A worker registers, claims, and from then on writes to a job only through the `Lease` of its claim.
Each of its writes is a compare-and-set on (job, fence): a stale lease changes nothing, returns
False and increments the counter `stale_writes`. A process that considers a worker lost removes it
and names the heartbeat count it saw. If the worker sent another heartbeat since, nothing happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from coatcheck.model.artifact import SmallFile
from coatcheck.model.event import NewJobEvent
from coatcheck.model.job import Claim, JobInsert, Lease, Progress
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Outcome
from coatcheck.model.share import HeldSlots
from coatcheck.model.step import Step
from coatcheck.model.worker import WorkerInfo

NO_LIMITS: Mapping[str, Limit] = MappingProxyType({})
NO_VERSIONS: Mapping[str, str] = MappingProxyType({})


class ClaimResult(NamedTuple):
    """The claimed jobs, and when the next delayed job is due (None: there is none)."""

    claims: list[Claim]
    next_due: int | None


class Report(NamedTuple):
    """A report of a running job: progress, events, steps, children and small files.

    A field that is None stays unchanged. A new progress or phase is also logged as an event, after
    the events of the report, and so is each step. A phase that ended before it could be written is
    an event of its own, of type PROGRESS: `{"phase": "loading"}`.

    A step replaces the one with the same number; an identical step is recorded and logged once.
    `children` are jobs spawned by these steps. `files` count toward the limit on artifacts, as in
    `FileStore.record_artifact`.
    """

    progress: Progress | None = None
    phase: str | None = None
    events: tuple[NewJobEvent, ...] = ()
    steps: tuple[Step, ...] = ()
    children: tuple[JobInsert, ...] = ()
    files: tuple[SmallFile, ...] = ()


class Settlement(NamedTuple):
    """The outcome of an attempt, with a last report."""

    lease: Lease
    outcome: Outcome
    report: Report | None = None


class HeldJob(NamedTuple):
    """A job that a worker holds, and whether its cancellation was requested."""

    lease: Lease
    cancel_requested: bool


class LimitUsage(NamedTuple):
    """The current use of a kind's limit."""

    running: int  # jobs of the kind, or of the key if the limit is by key
    free_at: int  # when the rate allows the next start, in microseconds


class RegisteredWorker(NamedTuple):
    """A registered worker. `known_dead` is true only if its process has certainly ended."""

    info: WorkerInfo
    known_dead: bool


class WorkerStore(Protocol):
    """The verbs of workers."""

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Register a worker before its first claim."""
        ...

    async def heartbeat(self, worker_id: str) -> bool:
        """Increment a worker's heartbeat count. Returns False if the worker was removed."""
        ...

    async def list_workers(self) -> list[RegisteredWorker]:
        """List the registered workers."""
        ...

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and treat the jobs that it holds as lost. Returns the number of jobs.

        With `beats`, the worker is removed only if its heartbeat count is still that. Without, the
        worker itself signs off. Returns None, with nothing changed, if the worker is not registered
        or sent a heartbeat since.
        """
        ...

    async def claim(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit] = NO_LIMITS,
        versions: Mapping[str, str] = NO_VERSIONS,
        held: HeldSlots | None = None,
    ) -> ClaimResult:
        """Claim up to `limit` due jobs of these kinds from queues that are not paused.

        The order is that of `store/shared/fairness.py`: higher priority first, then tenants in
        turn, then older first. A worker that was removed gets nothing. A claim may skip jobs that a
        concurrent claim is considering; WORK is signalled if that claim leaves them.

        `limits` are those of the kinds. They hold across all workers that name them, as do the
        limits of queues. WORK is signalled when a job that counts for a limit finishes; `next_due`
        includes the time at which an exhausted rate allows the next start. `versions` are the
        worker's versions of kinds: a job that started under one version is not claimed by workers
        with another. With `held`, jobs that would exceed the share of their kind or tenant are
        skipped.
        """
        ...

    async def get_limit_usage(
        self, kind: str, limit: Limit | None, tenant: str, key: str | None
    ) -> LimitUsage:
        """Count the running jobs that a kind's limit counts, up to that limit, and read when its
        rate allows the next start.
        """
        ...

    async def list_held_jobs(self, worker_id: str) -> list[HeldJob]:
        """List the jobs that a worker holds, even those of a claim whose response was lost."""
        ...

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write a report of a running job. Returns False if the lease is stale.

        This verb may be called on any event loop, not only on the one that opened the store.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """Settle attempts, all in one transaction.

        Returns for each: False if the lease is stale, True otherwise, even if the same lease had
        settled the job before.
        """
        ...
