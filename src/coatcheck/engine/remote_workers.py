"""Remote workers: they claim, renew and settle through the HTTP API, in any language.

To the store, each claim that returns jobs is a worker of its own, with a new id. So the rules for
our own workers apply: a worker is lost if its heartbeat does not move for a lease, and a stale
fence changes nothing. A heartbeat for one job of a claim renews all jobs of that claim. The worker
is removed when its last job is settled; if that fails, the sweep removes it.

The id of such a worker ends with the id of the API key that claimed (`is_held_by`): a lease belongs
to that key. Fences are small numbers that can be guessed, so they prove nothing by themselves.

The server cannot stop a remote handler. It enforces the timeout at heartbeats: the first heartbeat
after the job's timeout or deadline settles the attempt as timed out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.clock import Clock
from coatcheck.engine.confirmation import expire_confirmation
from coatcheck.engine.payloads.payloads import unreadable_input_outcome
from coatcheck.errors import InvalidPayload, StaleLease, StoreError, UnknownKind
from coatcheck.model.job import Claim, Failure, Job, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Errored, Outcome, Released
from coatcheck.model.payload import is_reference
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Step
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Report, Settlement, Store, Topic

if TYPE_CHECKING:
    from coatcheck.engine.leases import Leases
    from coatcheck.engine.maintenance.metrics import Metrics
    from coatcheck.engine.payloads.payloads import PayloadStore
    from coatcheck.engine.waiters import Waiters

REMOTE_PID = 0  # the process is on another machine
BEATS_PER_LEASE = 3


class HeartbeatReply(NamedTuple):
    """The answer to a heartbeat: whether the job is to be cancelled."""

    cancel_requested: bool


class RemoteWorkers:
    """The verbs of workers behind the HTTP API."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kinds: Mapping[str, Kind],
        new_id: Callable[[], str],
        *,
        leases: Leases,
        waiters: Waiters,
        payload_store: PayloadStore,
        metrics: Metrics,
        lease_s: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._kinds = kinds
        self._new_id = new_id
        self._leases = leases
        self._waiters = waiters
        self._payload_store = payload_store
        self._metrics = metrics
        self.lease_s = lease_s

    async def claim(
        self,
        kinds: Sequence[str],
        most: int,
        wait_s: float,
        host: str,
        has_left: Callable[[], Awaitable[bool]],
        key_id: str | None = None,
    ) -> list[Claim]:
        """Claim up to `most` jobs for a key; wait up to `wait_s` for the first one.

        Return nothing if the client has disconnected (`has_left`).
        """
        for kind in kinds:
            if kind not in self._kinds:
                raise UnknownKind(f"there is no kind {kind!r} on this server")
        worker = WorkerInfo(
            id=self._new_id() + _suffix(key_id),
            host=host,
            pid=REMOTE_PID,
            kinds=self._leases.names_of(kinds),
            slots=most,
            started_at=self._clock.now(),
        )
        await self._store.workers.register_worker(worker)
        claims: list[Claim] = []
        try:
            claims = await self._claim(worker.id, kinds, most, wait_s, has_left)
            if any(is_reference(claim.input) for claim in claims):
                claims = await self._with_inputs(claims)
        finally:
            if not claims:
                await self._remove(worker.id)
        return claims

    async def _with_inputs(self, claims: Sequence[Claim]) -> list[Claim]:
        """Load offloaded inputs; settle and skip a job whose input cannot be read."""
        read = []
        for claim in claims:
            try:
                text = await self._payload_store.read(claim.input)
            except StoreError as error:
                delay = self._kinds[claim.kind].backoff.delay(max(1, claim.attempt))
                outcome = unreadable_input_outcome(error, delay)
                await self._leases.settle([Settlement(claim.lease, outcome)])
            else:
                read.append(claim._replace(input=text))
        return read

    async def _claim(
        self,
        worker_id: str,
        kinds: Sequence[str],
        most: int,
        wait_s: float,
        has_left: Callable[[], Awaitable[bool]],
    ) -> list[Claim]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        with contextlib.closing(self._store.subscribe(Topic.WORK)) as signal:
            while not await has_left():
                claimed = await self._leases.claim(worker_id, kinds, most)
                left = until - loop.time()
                if claimed.claims or left <= 0 or self._waiters.released:
                    return claimed.claims
                pause = min(left, self.lease_s / BEATS_PER_LEASE)
                if claimed.next_due is not None:
                    due_s = (claimed.next_due - self._clock.now()) / 1000
                    pause = min(pause, max(0.0, due_s))
                woken = await signal.wait(pause)
                expire_confirmation()
                if not woken:
                    await self._store.workers.heartbeat(worker_id)
        return []

    async def release(self, claims: Sequence[Claim]) -> None:
        """Release jobs from a claim whose response was lost; their attempts do not count."""
        for claim in claims:
            await self.settle(claim.lease, Released())

    async def heartbeat(self, lease: Lease) -> HeartbeatReply:
        """Renew a lease; raises StaleLease if it is lost or the job has timed out."""
        job = await self._held(lease)
        if self._has_timed_out(job):
            message = "the job timed out"
            error = Failure("timeout", message, retryable=True)
            await self.settle(lease, Errored(error, self._backoff_ms(job), Reason.TIMEOUT))
            raise _stale(job.id, message)
        if not await self._store.workers.heartbeat(job.worker or ""):
            raise _stale(job.id, "the lease has expired")
        return HeartbeatReply(job.cancel_requested)

    async def report(self, lease: Lease, report: Report) -> None:
        """Write a running job's progress and events; raises StaleLease."""
        if not await self._leases.report(lease, report):
            raise _stale(lease.job_id)

    async def record_steps(self, lease: Lease, steps: Sequence[Step]) -> None:
        """Write checkpoints of a running job; a sequence number belongs to one step for good."""
        recorded = await self._store.jobs.list_steps(lease.tenant, (await self._held(lease)).id)
        by_number = {step.seq: step.id for step in recorded}
        numbers = {step.id: step.seq for step in recorded}
        for at, step in enumerate(steps):
            if by_number.setdefault(step.seq, step.id) != step.id:
                raise _wrong_number(at, f"number {step.seq} belongs to {by_number[step.seq]}")
            if numbers.setdefault(step.id, step.seq) != step.seq:
                raise _wrong_number(at, f"{step.id} has number {numbers[step.id]}")
        await self.report(lease, Report(steps=tuple(steps)))

    async def settle(self, lease: Lease, outcome: Outcome) -> None:
        """Write the outcome of an attempt; repeating it changes nothing. Raises StaleLease."""
        job = await self._store.jobs.get(lease.tenant, lease.job_id)
        [settled] = await self._leases.settle([Settlement(lease, outcome)])
        if not settled:
            raise _stale(lease.job_id)
        if job.state is State.RUNNING:  # else this repeats an earlier call
            ran_ms = self._clock.now() - (job.started_at or job.run_at)
            last = job.attempt >= job.terms.max_attempts
            self._metrics.settled(job.kind, job.queue, outcome, last=last, ran_ms=ran_ms)
        if job.worker is not None and not await self._store.workers.list_held_jobs(job.worker):
            await self._remove(job.worker)

    async def fail(self, lease: Lease, error: Failure, retry_after_s: float | None) -> None:
        """Settle a failed attempt that may be retried, after the kind's backoff by default."""
        job = await self._held(lease)
        delay = self._backoff_ms(job) if retry_after_s is None else round(retry_after_s * 1000)
        await self.settle(lease, Errored(error, delay))

    async def _held(self, lease: Lease) -> Job:
        job = await self._store.jobs.get(lease.tenant, lease.job_id)
        if job.fence != lease.fence or job.state is not State.RUNNING:
            raise _stale(job.id, f"the job is {job.state}")
        return job

    def _has_timed_out(self, job: Job) -> bool:
        now = self._clock.now()
        deadline = job.terms.deadline_at
        began = now if job.started_at is None else job.started_at
        return now > began + job.terms.timeout_ms or (deadline is not None and now > deadline)

    def _backoff_ms(self, job: Job) -> int:
        return self._kinds[job.kind].backoff.delay(max(1, job.attempt))

    async def _remove(self, worker_id: str) -> None:
        now = self._clock.now()
        await self._store.workers.remove_worker(worker_id, None, now)


def is_held_by(job: Job, key_id: str) -> bool:
    """Tell whether a job runs under a lease that this key claimed."""
    holder = job.worker or ""
    return job.state is State.RUNNING and holder.endswith(_suffix(key_id))


def _stale(job_id: str, why: str = "") -> StaleLease:
    return StaleLease(f"the lease on job {job_id} is stale" + (f": {why}" if why else ""))


def _suffix(key_id: str | None) -> str:
    return "" if key_id is None else f".{key_id}"


def _wrong_number(at: int, why: str) -> InvalidPayload:
    pointer = f"/steps/{at}/seq"
    return InvalidPayload(f"{pointer}: {why}", [(pointer, why)])
