"""Why is this job waiting? Everything that holds a job, each with what would change it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from coatcheck.clock import to_rfc3339
from coatcheck.model.job import Job
from coatcheck.model.limit import Limit, millis
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op, Step, StepState
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import LimitUsage, QueueStatus, Store
from coatcheck.store.fairness import kind_in_lanes

if TYPE_CHECKING:
    from coatcheck.engine.engine import Engine

# Positions are exact up to here.
MAX_POSITION = 1_000


class HoldReason(NamedTuple):
    """One thing that holds a job: a stable code, and a sentence for people."""

    code: str
    message: str


WAITING = HoldReason("waiting", "its handler waits, for a time, an event or other jobs")


def explain(
    job: Job,
    now: int,
    *,
    limit: Limit | None = None,
    stands: LimitUsage | None = None,
    queue: QueueStatus | None,
    workers: Sequence[WorkerInfo],
    ahead: int,
    most: int,
) -> list[HoldReason]:
    """Say what holds a job, the most telling first."""
    if job.state.is_terminal:
        return [HoldReason("ended", f"it has {job.state} and holds nothing up")]
    if job.state is State.RUNNING:
        return _running(job, workers)
    if job.state is State.WAITING:
        return [WAITING]
    reasons = _held(job, now, queue, workers)
    if job.run_at <= now:
        reasons += _limited(job, now, queue, limit, stands)
    return reasons or _next(job, queue, workers, ahead, most)


async def what_holds(engine: Engine, job: Job) -> list[HoldReason]:
    """Look at all that may hold a job, and say what does."""
    if job.state is State.WAITING:
        return await why_it_waits(engine.store, job, MAX_POSITION)
    queues = {queue.name: queue for queue in await engine.store.queues()}
    workers = [seen.info for seen in await engine.store.workers() if not seen.known_dead]
    kind = engine.kinds.get(job.kind)
    limit = None if kind is None else kind.limit
    stands = None
    if limit is not None and job.state is State.QUEUED:
        stands = await engine.store.stands(job.kind, limit, job.tenant, job.limit_key)
    return explain(
        job,
        engine.clock.now(),
        limit=limit,
        stands=stands,
        queue=queues.get(job.queue),
        workers=workers,
        ahead=await engine.position(job) or 0,
        most=MAX_POSITION,
    )


async def why_it_waits(store: Store, job: Job, most: int) -> list[HoldReason]:
    """Say what the handler of a waiting job waits for; of many jobs it has spawned, only `most` are
    looked at.
    """
    steps = await store.steps(job.tenant, job.id)
    reasons = []
    for step in steps:
        if step.state is StepState.WAITING:
            if step.id.op is Op.GATHER:
                reasons.append(await _children(store, job, steps, most))
            else:
                reasons.append(_wait(step))
    return reasons or [WAITING]


def _wait(step: Step) -> HoldReason:
    until = None if step.wake_at is None else to_rfc3339(step.wake_at)
    if step.id.op is Op.SLEEP:
        return HoldReason("sleeping", f"its handler sleeps until {until}")
    if step.id.op is Op.EVENT:
        limit = "for as long as it takes" if until is None else f"until {until}"
        what = f"event {step.id.name!r} to be sent to it, {limit}"
        return HoldReason("waiting-for-event", f"its handler waits for {what}")
    tried = f"{step.id} failed {step.attempts} time(s)"
    return HoldReason("retrying-step", f"{tried}; it is tried again at {until}")


async def _children(store: Store, job: Job, steps: Sequence[Step], most: int) -> HoldReason:
    ids = [json.loads(step.result or "null") for step in steps if step.id.op is Op.CHILD]
    if len(ids) > most:
        what = f"some of the {len(ids)} jobs it has spawned"
    else:
        found = await store.get_many([(job.tenant, job_id) for job_id in ids])
        left = sum(not child.state.is_terminal for child in found)
        what = f"{left} of the {len(ids)} job(s) it has spawned"
    return HoldReason("waiting-for-jobs", f"its handler waits for {what} to end")


def _running(job: Job, workers: Sequence[WorkerInfo]) -> list[HoldReason]:
    holder = next((worker for worker in workers if worker.id == job.worker), None)
    if holder is None:
        return [
            HoldReason(
                "lost-worker",
                f"its worker {job.worker} is gone; the next sweep gives the job to another one",
            )
        ]
    reasons = []
    if job.cancel_requested:
        reasons.append(HoldReason("cancelling", "it was told to stop and has not stopped yet"))
    began = "" if job.started_at is None else f" since {to_rfc3339(job.started_at)}"
    place = f"worker {holder.id} (process {holder.pid} on {holder.host})"
    reasons.append(
        HoldReason(
            "leased", f"{place} runs attempt {job.attempt} of {job.terms.max_attempts}{began}"
        )
    )
    return reasons


def _held(
    job: Job, now: int, queue: QueueStatus | None, workers: Sequence[WorkerInfo]
) -> list[HoldReason]:
    reasons = []
    if job.run_at > now:
        due = to_rfc3339(job.run_at)
        if job.reason is Reason.RETRY:
            why = f"attempt {job.attempt} failed; the next one is due at {due}"
            reasons.append(HoldReason("backing-off", why))
        else:
            reasons.append(HoldReason("delayed", f"it was submitted to start at {due}"))
    if queue is not None and queue.paused:
        why = f"queue {job.queue!r} is paused; `coatcheck queues resume {job.queue}` lets it go on"
        reasons.append(HoldReason("paused", why))
    if _able(job, workers):
        return reasons
    if any(job.kind in worker.kinds for worker in workers):
        reasons.append(
            HoldReason(
                "no-version",
                f"it has begun under version {job.version!r} of kind {job.kind!r}, and no worker "
                "that is running has that version",
            )
        )
    else:
        seen = f"{len(workers)} other worker(s) are there" if workers else "there are no workers"
        why = f"no worker that is running has kind {job.kind!r}; {seen}"
        reasons.append(HoldReason("no-worker", why))
    return reasons


def _able(job: Job, workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    name = kind_in_lanes(job.kind, job.version)
    return [worker for worker in workers if name in worker.kinds]


def _limited(
    job: Job,
    now: int,
    queue: QueueStatus | None,
    limit: Limit | None,
    stands: LimitUsage | None,
) -> list[HoldReason]:
    reasons = []
    if queue is not None and queue.concurrency is not None and queue.running >= queue.concurrency:
        why = f"{queue.running} of {queue.concurrency} job(s) of queue {job.queue!r} run"
        reasons.append(HoldReason("queue-limit", why))
    if limit is None or stands is None:
        return reasons
    if limit.concurrency is not None and stands.running >= limit.concurrency:
        many = f"{stands.running} of {limit.concurrency} job(s)"
        if not limit.by_key:
            reasons.append(HoldReason("kind-limit", f"{many} of kind {job.kind!r} run"))
        elif job.limit_key is not None:
            why = f"its key {job.limit_key!r} is busy: {many} of kind {job.kind!r} with it run"
            reasons.append(HoldReason("key-limit", why))
    if limit.rate is not None and not limit.rate.allowed(stands.free_at, now):
        wait_s = (millis(stands.free_at) - now) / 1000
        why = f"kind {job.kind!r} starts {limit.rate.text}: the next one in {wait_s:.1f} s"
        reasons.append(HoldReason("rate-limit", why))
    return reasons


def _next(
    job: Job,
    queue: QueueStatus | None,
    workers: Sequence[WorkerInfo],
    ahead: int,
    most: int,
) -> list[HoldReason]:
    able = _able(job, workers)
    slots = sum(worker.slots for worker in able)
    running = 0 if queue is None else queue.running
    if ahead:
        count = f"{most}+" if ahead >= most else str(ahead)
        why = f"{count} job(s) of queue {job.queue!r} come first; {running} run, in {slots} slot(s)"
        return [HoldReason("behind", why)]
    if running >= slots:
        return [HoldReason("busy", f"it is next; all {slots} slot(s) of {len(able)} worker(s) run")]
    return [HoldReason("due", "nothing holds it: a worker will take it any moment")]
