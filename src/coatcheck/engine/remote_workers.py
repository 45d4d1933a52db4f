"""Workers that are not ours: they claim, heartbeat and settle through the API, in any language.

Each claim that brings jobs is a worker of its own to the store, with an id that is new: what holds
for our workers (a heartbeat that stands still for a lease means lost, a stale fence changes
nothing) holds for these. A heartbeat for any job of a claim keeps all jobs of that claim. Once the
last of them is settled the worker is removed; if that is forgotten, the sweep finds it.

The id of such a worker ends with the id of the API key that claimed (`is_held_by`): a lease belongs
to that key. Fences are small numbers that can be guessed, so they prove nothing by themselves.

Nobody here can stop a handler elsewhere, so its time is kept at its heartbeats: one that comes
after the job's timeout or deadline ends the attempt as timed out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.engine.confirmation import expire_confirmation
from coatcheck.engine.payloads.payloads import unreadable_input_outcome
from coatcheck.errors import InvalidPayload, StaleLease, StoreError, UnknownKind
from coatcheck.model.job import Claim, Failure, Job, Lease
from coatcheck.model.outcome import Errored, Outcome, Released
from coatcheck.model.payload import is_reference
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Step
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Report, Settlement, Topic

if TYPE_CHECKING:
    from coatcheck.engine.engine import Engine

REMOTE_PID = 0  # no process that anybody here could look after
BEATS_PER_LEASE = 3


class HeartbeatReply(NamedTuple):
    """What a heartbeat is answered: whether somebody wants the job cancelled."""

    cancel_requested: bool


class RemoteWorkers:
    """The verbs of workers behind the API."""

    def __init__(self, engine: Engine, lease_s: float) -> None:
        self._engine = engine
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
        """Take up to so many jobs for a key, waiting a while for the first; none for one who has
        left.
        """
        for kind in kinds:
            if kind not in self._engine.kinds:
                raise UnknownKind(f"there is no kind {kind!r} here")
        worker = WorkerInfo(
            id=self._engine.new_id() + _suffix(key_id),
            host=host,
            pid=REMOTE_PID,
            kinds=self._engine.names_of(kinds),
            slots=most,
            started_at=self._engine.clock.now(),
        )
        await self._engine.store.register_worker(worker)
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
        """Read inputs that are kept apart; a job whose input cannot be read is not handed out."""
        read = []
        for claim in claims:
            try:
                text = await self._engine.payload_store.read(claim.input)
            except StoreError as error:
                delay = self._engine.kinds[claim.kind].backoff.delay(max(1, claim.attempt))
                outcome = unreadable_input_outcome(error, delay)
                await self._engine.settle([Settlement(claim.lease, outcome)])
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
        with contextlib.closing(self._engine.store.subscribe(Topic.WORK)) as signal:
            while not await has_left():
                claimed = await self._engine.claim(worker_id, kinds, most)
                left = until - loop.time()
                if claimed.claims or left <= 0 or self._engine.stopping:
                    return claimed.claims
                pause = min(left, self.lease_s / BEATS_PER_LEASE)
                if claimed.next_due is not None:
                    due_s = (claimed.next_due - self._engine.clock.now()) / 1000
                    pause = min(pause, max(0.0, due_s))
                told = await signal.wait(pause)
                expire_confirmation()
                if not told:
                    await self._engine.store.beat(worker_id)
        return []

    async def release(self, claims: Sequence[Claim]) -> None:
        """Release jobs of a claim that is not answered; their attempts do not count."""
        for claim in claims:
            await self.settle(claim.lease, Released())

    async def heartbeat(self, lease: Lease) -> HeartbeatReply:
        """Keep a lease; raises StaleLease where it is lost, or its time is over."""
        job = await self._held(lease)
        if self._is_over(job):
            message = "the job ran out of time"
            error = Failure("timeout", message, retryable=True)
            await self.settle(lease, Errored(error, self._backoff_ms(job), Reason.TIMEOUT))
            raise StaleLease(f"job {job.id} is not yours any more: {message}")
        if not await self._engine.store.beat(job.worker or ""):
            raise StaleLease(f"job {job.id} is not yours any more: its lease has lapsed")
        return HeartbeatReply(job.cancel_requested)

    async def report(self, lease: Lease, report: Report) -> None:
        """Write what a running job says of itself."""
        if not await self._engine.report(lease, report):
            raise StaleLease(f"job {lease.job_id} is not yours any more")

    async def record_steps(self, lease: Lease, steps: Sequence[Step]) -> None:
        """Write checkpoints of a running job. A number stays with the step that has it."""
        there = await self._engine.store.steps(lease.tenant, (await self._held(lease)).id)
        by_number = {step.seq: step.id for step in there}
        numbers = {step.id: step.seq for step in there}
        for at, step in enumerate(steps):
            if by_number.setdefault(step.seq, step.id) != step.id:
                raise _misnumbered(at, f"number {step.seq} is {by_number[step.seq]}")
            if numbers.setdefault(step.id, step.seq) != step.seq:
                raise _misnumbered(at, f"{step.id} has number {numbers[step.id]}")
        await self.report(lease, Report(steps=tuple(steps)))

    async def settle(self, lease: Lease, outcome: Outcome) -> None:
        """End an attempt; the same end told twice is one."""
        job = await self._engine.get(lease.job_id, lease.tenant)
        [settled] = await self._engine.settle([Settlement(lease, outcome)])
        if not settled:
            raise StaleLease(f"job {lease.job_id} is not yours any more")
        if job.state is State.RUNNING:  # else it was told before
            ran_ms = self._engine.clock.now() - (job.started_at or job.run_at)
            last = job.attempt >= job.terms.max_attempts
            self._engine.metrics.settled(job.kind, job.queue, outcome, last=last, ran_ms=ran_ms)
        if job.worker is not None and not await self._engine.store.held_by(job.worker):
            await self._remove(job.worker)

    async def fail(self, lease: Lease, error: Failure, retry_after_s: float | None) -> None:
        """End an attempt that failed and may be made again, by the kind's backoff unless told."""
        job = await self._held(lease)
        delay = self._backoff_ms(job) if retry_after_s is None else round(retry_after_s * 1000)
        await self.settle(lease, Errored(error, delay))

    async def _held(self, lease: Lease) -> Job:
        job = await self._engine.get(lease.job_id, lease.tenant)
        if job.fence != lease.fence or job.state is not State.RUNNING:
            raise StaleLease(f"job {job.id} is not yours any more: it is {job.state}")
        return job

    def _is_over(self, job: Job) -> bool:
        now = self._engine.clock.now()
        deadline = job.terms.deadline_at
        began = now if job.started_at is None else job.started_at
        return now > began + job.terms.timeout_ms or (deadline is not None and now > deadline)

    def _backoff_ms(self, job: Job) -> int:
        return self._engine.kinds[job.kind].backoff.delay(max(1, job.attempt))

    async def _remove(self, worker_id: str) -> None:
        now = self._engine.clock.now()
        await self._engine.store.remove_worker(worker_id, None, now)


def is_held_by(job: Job, key_id: str) -> bool:
    """Tell whether a job runs under a lease that this key has claimed."""
    holder = job.worker or ""
    return job.state is State.RUNNING and holder.endswith(_suffix(key_id))


def _suffix(key_id: str | None) -> str:
    return "" if key_id is None else f".{key_id}"


def _misnumbered(at: int, why: str) -> InvalidPayload:
    place = f"/steps/{at}/seq"
    return InvalidPayload(f"{place}: {why}", [(place, why)])
