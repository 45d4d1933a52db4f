"""The part of a store that workers use: becoming known, taking jobs, and saying what came of them.

A worker registers, claims, and from then on writes to a job only through the `Lease` it got. Each
of its writes is compare-and-set on (job, fence): a lease that is no longer the newest changes
nothing, is answered with False and counted under `stale_writes`. Whoever finds a worker lost
removes it, naming the heartbeat count it judged by: if it beat once more in between, nothing
happens.
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
    """What a claim brought, and when the next delayed job is due (None: there is none)."""

    claims: list[Claim]
    next_due: int | None


class Report(NamedTuple):
    """What a running job says of itself; what is None stays as it is. A new progress or phase is
    an entry of the log too, after the report's own, and so is each step. A phase that was over
    before it could be written is an entry of its own, of type PROGRESS: `{"phase": "loading"}`.

    A step replaces what is there under its number; written twice in the same words, it is there and
    in the log once. `children` are jobs it spawned with these steps. `files` are small ones that it
    leaves behind: there must be room for as many, as `keep_artifact` would say.
    """

    progress: Progress | None = None
    phase: str | None = None
    events: tuple[NewJobEvent, ...] = ()
    steps: tuple[Step, ...] = ()
    children: tuple[JobInsert, ...] = ()
    files: tuple[SmallFile, ...] = ()


class Settlement(NamedTuple):
    """How an attempt ended, and what the job had still to say of itself."""

    lease: Lease
    outcome: Outcome
    report: Report | None = None


class HeldJob(NamedTuple):
    """A job that a worker holds, and whether somebody wants it cancelled."""

    lease: Lease
    cancel_requested: bool


class LimitUsage(NamedTuple):
    """What a kind's limit counts."""

    running: int  # of the kind, or of the key where the limit is by key
    free_at: int  # when the next may start by its rate, in microseconds


class RegisteredWorker(NamedTuple):
    """A registered worker; `known_dead` only where the store can tell for certain."""

    info: WorkerInfo
    known_dead: bool


class WorkerStore(Protocol):
    """The verbs of workers."""

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Make a worker known, before its first claim."""
        ...

    async def beat(self, worker_id: str) -> bool:
        """Raise a worker's heartbeat count; False when it was removed as lost."""
        ...

    async def workers(self) -> list[RegisteredWorker]:
        """List the registered workers."""
        ...

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and treat what it still holds as lost; return how many jobs that was.

        With `beats` it is removed only if its count is still that; without, it says goodbye itself.
        None means that nothing was done: it is not known, or it has beaten since.
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
        """Take up to `limit` jobs of these kinds that are due, from queues that are not paused, in
        the order of `coatcheck.store.fairness`: higher priority first, then tenants in turn, then
        older first. A worker that was removed gets nothing. What another claim is looking at may be
        passed over; WORK is signalled if that one leaves it.

        `limits` are those of kinds, which hold over all workers that name them, as do those of
        queues; WORK is signalled when a job ends that one of them counted, and `next_due` is also
        when a kind may start again that has used up its rate. `versions` are those the worker has
        of kinds: a job that begins under one is not given to workers with another any more.
        With `held`, jobs are passed over that would exceed the share of their kind or tenant.
        """
        ...

    async def stands(
        self, kind: str, limit: Limit | None, tenant: str, key: str | None
    ) -> LimitUsage:
        """Count what runs of a kind, and of a key of it, and say when its rate lets the next start:
        as far as the limit goes.
        """
        ...

    async def held_by(self, worker_id: str) -> list[HeldJob]:
        """List the jobs a worker holds, also those whose claim it never got the answer of."""
        ...

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself; False when the lease is stale. May be called
        on any loop, not only on the one that the store was opened on.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts, all in one transaction. For each: True also when this very lease had
        settled the job before; False when the lease is stale.
        """
        ...
