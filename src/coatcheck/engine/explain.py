"""Explain why a job is not running: every reason, each with what would change it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coatcheck.clock import Clock, to_rfc3339
from coatcheck.model.job import Job
from coatcheck.model.kind import Kind
from coatcheck.model.limit import Limit, millis
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op, Step, StepState
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import LimitUsage, QueueStatus, Store
from coatcheck.store.shared.fairness import kind_in_lanes

# Positions are exact up to here.
MAX_POSITION = 1_000


class HoldReason(NamedTuple):
    """One reason why a job is not running: a stable code, and a sentence for people."""

    code: str
    message: str


WAITING = HoldReason("waiting", "its handler waits for a time, an event or other jobs")


class Explainer:
    """Explanations of jobs, from what the store says of queues, workers and limits."""

    def __init__(self, store: Store, clock: Clock, kinds: Mapping[str, Kind]) -> None:
        self._store = store
        self._clock = clock
        self._kinds = kinds

    async def position(self, job: Job) -> int | None:
        """Count the jobs ahead of one that is due, up to MAX_POSITION; None if it is not queued."""
        if job.state is not State.QUEUED or job.run_at > self._clock.now():
            return None
        return await self._store.queues.count_ahead(job, list(self._kinds), MAX_POSITION)

    async def explain(self, job: Job) -> list[HoldReason]:
        """Return the reasons why a job is not running, the most important first."""
        if job.state is State.WAITING:
            return await self._explain_waiting(job)
        queues = {queue.name: queue for queue in await self._store.queues.list_queues()}
        workers = [
            seen.info for seen in await self._store.workers.list_workers() if not seen.known_dead
        ]
        kind = self._kinds.get(job.kind)
        limit = None if kind is None else kind.limit
        usage = None
        if limit is not None and job.state is State.QUEUED:
            usage = await self._store.workers.get_limit_usage(
                job.kind, limit, job.tenant, job.limit_key
            )
        return explain(
            job,
            self._clock.now(),
            limit=limit,
            usage=usage,
            queue=queues.get(job.queue),
            workers=workers,
            ahead=await self.position(job) or 0,
        )

    async def _explain_waiting(self, job: Job) -> list[HoldReason]:
        steps = await self._store.jobs.list_steps(job.tenant, job.id)
        reasons = []
        for step in steps:
            if step.state is StepState.WAITING:
                if step.id.op is Op.GATHER:
                    reasons.append(await self._waits_for_children(job, steps))
                else:
                    reasons.append(_waits_in_step(step))
        return reasons or [WAITING]

    async def _waits_for_children(self, job: Job, steps: Sequence[Step]) -> HoldReason:
        ids = [json.loads(step.result or "null") for step in steps if step.id.op is Op.CHILD]
        if len(ids) > MAX_POSITION:
            children = f"some of its {len(ids)} child jobs"
        else:
            found = await self._store.jobs.get_many([(job.tenant, job_id) for job_id in ids])
            left = sum(not child.state.is_terminal for child in found)
            children = f"{left} of its {len(ids)} child job(s)"
        return HoldReason("waiting-for-jobs", f"its handler waits for {children} to finish")


def explain(
    job: Job,
    now: int,
    *,
    limit: Limit | None = None,
    usage: LimitUsage | None = None,
    queue: QueueStatus | None,
    workers: Sequence[WorkerInfo],
    ahead: int,
) -> list[HoldReason]:
    """Return the reasons why a job is not running, the most important first."""
    if job.state.is_terminal:
        return [HoldReason("ended", f"it has {job.state}")]
    if job.state is State.RUNNING:
        return _running(job, workers)
    if job.state is State.WAITING:
        return [WAITING]
    reasons = _not_claimable(job, now, queue, workers)
    if job.run_at <= now:
        reasons += _limited(job, now, queue, limit, usage)
    return reasons or _next_in_queue(job, queue, workers, ahead)


def _waits_in_step(step: Step) -> HoldReason:
    until = None if step.wake_at is None else to_rfc3339(step.wake_at)
    if step.id.op is Op.SLEEP:
        return HoldReason("sleeping", f"its handler sleeps until {until}")
    if step.id.op is Op.EVENT:
        limit = "without a time limit" if until is None else f"until {until}"
        event = f"event {step.id.name!r} to be sent to it, {limit}"
        return HoldReason("waiting-for-event", f"its handler waits for {event}")
    failed = f"{step.id} failed {step.attempts} time(s)"
    return HoldReason("retrying-step", f"{failed}; the next attempt is due at {until}")


def _running(job: Job, workers: Sequence[WorkerInfo]) -> list[HoldReason]:
    holder = next((worker for worker in workers if worker.id == job.worker), None)
    if holder is None:
        lost = f"its worker {job.worker} is lost; the next sweep requeues the job"
        return [HoldReason("lost-worker", lost)]
    reasons = []
    if job.cancel_requested:
        reasons.append(HoldReason("cancelling", "it was asked to stop and has not stopped yet"))
    since = "" if job.started_at is None else f" since {to_rfc3339(job.started_at)}"
    worker = f"worker {holder.id} (process {holder.pid} on {holder.host})"
    attempt = f"attempt {job.attempt} of {job.terms.max_attempts}"
    return [*reasons, HoldReason("leased", f"{worker} runs {attempt}{since}")]


def _not_claimable(
    job: Job, now: int, queue: QueueStatus | None, workers: Sequence[WorkerInfo]
) -> list[HoldReason]:
    reasons = []
    if job.run_at > now:
        due = to_rfc3339(job.run_at)
        if job.reason is Reason.RETRY:
            why = f"attempt {job.attempt} failed; the next one is due at {due}"
            reasons.append(HoldReason("backing-off", why))
        else:
            reasons.append(HoldReason("delayed", f"it is scheduled to start at {due}"))
    if queue is not None and queue.paused:
        command = f"`coatcheck queues resume {job.queue}`"
        reasons.append(HoldReason("paused", f"queue {job.queue!r} is paused; {command} resumes it"))
    if _capable(job, workers):
        return reasons
    if any(job.kind in worker.kinds for worker in workers):
        started = f"it started under version {job.version!r} of kind {job.kind!r}"
        reasons.append(HoldReason("no-version", f"{started}, and no worker has that version"))
    else:
        others = f"there are {len(workers)} other worker(s)" if workers else "there are no workers"
        reasons.append(HoldReason("no-worker", f"no worker has kind {job.kind!r}; {others}"))
    return reasons


def _capable(job: Job, workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    name = kind_in_lanes(job.kind, job.version)
    return [worker for worker in workers if name in worker.kinds]


def _limited(
    job: Job,
    now: int,
    queue: QueueStatus | None,
    limit: Limit | None,
    usage: LimitUsage | None,
) -> list[HoldReason]:
    reasons = []
    if queue is not None and queue.concurrency is not None and queue.running >= queue.concurrency:
        why = f"{queue.running} of {queue.concurrency} job(s) of queue {job.queue!r} are running"
        reasons.append(HoldReason("queue-limit", why))
    if limit is None or usage is None:
        return reasons
    if limit.concurrency is not None and usage.running >= limit.concurrency:
        count = f"{usage.running} of {limit.concurrency} job(s) of kind {job.kind!r}"
        if not limit.by_key:
            reasons.append(HoldReason("kind-limit", f"{count} are running"))
        elif job.limit_key is not None:
            reasons.append(
                HoldReason("key-limit", f"{count} with its key {job.limit_key!r} are running")
            )
    if limit.rate is not None and not limit.rate.allowed(usage.free_at, now):
        wait_s = (millis(usage.free_at) - now) / 1000
        why = (
            f"the rate of kind {job.kind!r} is {limit.rate.text}; the next start in {wait_s:.1f} s"
        )
        reasons.append(HoldReason("rate-limit", why))
    return reasons


def _next_in_queue(
    job: Job, queue: QueueStatus | None, workers: Sequence[WorkerInfo], ahead: int
) -> list[HoldReason]:
    capable = _capable(job, workers)
    slots = sum(worker.slots for worker in capable)
    running = 0 if queue is None else queue.running
    if ahead:
        count = f"{MAX_POSITION}+" if ahead >= MAX_POSITION else str(ahead)
        used = f"{running} running in {slots} slot(s)"
        why = f"{count} job(s) of queue {job.queue!r} are ahead of it; {used}"
        return [HoldReason("behind", why)]
    if running >= slots:
        busy = f"it is next; all {slots} slot(s) of {len(capable)} worker(s) are busy"
        return [HoldReason("busy", busy)]
    return [HoldReason("due", "nothing holds it: a worker will claim it shortly")]
