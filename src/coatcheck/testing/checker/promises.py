"""Checks for the promises about jobs, in terms of rows, logs and side effects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from coatcheck.model.state import Reason, State
from coatcheck.testing.checker.effects import BEGAN, RETURNED, Effect
from coatcheck.testing.checker.replay import Replay
from coatcheck.testing.checker.run import JobRecord, RunRecord

# Reasons for which a job may finish without an attempt.
_BEFORE_ANY_ATTEMPT = (Reason.CANCELLED, Reason.EXPIRED)


class Violation(NamedTuple):
    """A promise that a run broke."""

    promise: str
    job_id: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise} {self.job_id}: {self.what}"


Replays = dict[str, Replay]
Check = Callable[[RunRecord, Replays], Iterator[Violation]]


def durable(run: RunRecord, _: Replays) -> Iterator[Violation]:
    """Check P1: answered submits have a job or a tombstone, and every job was submitted."""
    records = {(record.tenant, record.id): record for record in run.records}
    for submit in run.submits:
        record = records.get((submit.tenant, submit.job_id))
        if submit.answered and (record is None or (record.job is None and not record.gone)):
            yield Violation("P1", submit.job_id, "its submit was answered, and it is not there")
    sent = {submit.job_id for submit in run.submits}
    keys = {submit.key for submit in run.submits} - {None}
    known = {(record.tenant, record.id) for record in run.records}
    for record in run.records:
        if record.job is None or (record.tenant, record.job.terms.parent) in known:
            continue  # spawned: see P4
        if record.id not in sent and record.key not in keys:
            yield Violation("P1", record.id, "it is there, and nobody submitted it")


def once(run: RunRecord, _: Replays) -> Iterator[Violation]:
    """Check P1: submits with one key created one job, and every answer names it."""
    by_key: defaultdict[str, set[str]] = defaultdict(set)
    for submit in run.submits:
        if submit.key is not None and submit.job_id:
            by_key[submit.key].add(submit.job_id)
    for record in run.records:
        if record.key is not None and record.job is not None:
            by_key[record.key].add(record.id)
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Violation("P1", min(ids), f"key {key} stands for {len(ids)} jobs: {sorted(ids)}")


def attempted(run: RunRecord, replays: Replays) -> Iterator[Violation]:
    """Check P2: every job was attempted, cancelled or expired; it finished or can still run."""
    began = {effect.job_id for effect in run.effects or () if effect.what == BEGAN}
    for record, seen in _with_log(run, replays):
        job = record.job
        if job is None:
            continue
        excused = seen.reason in _BEFORE_ANY_ATTEMPT and job.state is not State.SUCCEEDED
        if job.state.is_terminal and not seen.claims and not excused:
            yield Violation("P2", job.id, f"it {job.state} without an attempt")
        if run.effects is not None and job.state is State.SUCCEEDED and job.id not in began:
            yield Violation("P2", job.id, "it succeeded, and its handler was never entered")
        if run.ended and not job.state.is_terminal:
            yield Violation("P2", job.id, f"the run is over and it is still {job.state}")
        elif job.state is State.RUNNING and job.worker not in run.live_workers:
            yield Violation("P2", job.id, f"it is running in {job.worker}, which is not alive")


def ended_once(run: RunRecord, replays: Replays) -> Iterator[Violation]:
    """Check P3: a job finishes once at most, by legal transitions, and its row agrees."""
    for record, seen in _with_log(run, replays):
        for fault in seen.faults:
            yield Violation("P3", record.id, fault)
        if len(seen.ends) > 1:
            yield Violation("P3", record.id, f"it ended {len(seen.ends)} times: {seen.ends}")
        if seen.ends and seen.state is not seen.ends[-1]:
            yield Violation("P3", record.id, f"it went on to {seen.state} after {seen.ends[-1]}")
        if record.job is not None:
            yield from _row_agrees(record, seen)


def _row_agrees(record: JobRecord, seen: Replay) -> Iterator[Violation]:
    job = record.job
    assert job is not None
    told = (seen.state, seen.reason, seen.attempt, len(record.events))
    row = (job.state, job.reason, job.attempt, job.last_event)
    if row != told:
        yield Violation("P3", job.id, f"its row says {row}, its log {told}")
    if (job.finished_at is not None) != job.state.is_terminal:
        yield Violation("P3", job.id, f"it is {job.state}, and finished at {job.finished_at}")
    if (job.worker is not None) != (job.state is State.RUNNING):
        yield Violation("P3", job.id, f"it is {job.state}, and held by {job.worker}")
    if (job.result is not None) != (job.state is State.SUCCEEDED):
        yield Violation("P3", job.id, f"it is {job.state}, and its result is {job.result}")


def one_holder(run: RunRecord, replays: Replays) -> Iterator[Violation]:
    """Check P5: only the holder of the last claim changed a job; stale holders did not."""
    by_job: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in run.effects or ():
        by_job[effect.job_id].append(effect)
    for record, seen in _with_log(run, replays):
        for what in seen.stale:
            yield Violation("P5", record.id, what)
        job = record.job
        if job is not None and not seen.least_fence <= job.fence <= seen.most_fence:
            due = f"{seen.least_fence} to {seen.most_fence}"
            yield Violation("P5", job.id, f"its fence is {job.fence}; its log amounts to {due}")
        yield from _effects_fit(record, seen, by_job[record.id])


def _effects_fit(record: JobRecord, seen: Replay, effects: list[Effect]) -> Iterator[Violation]:
    """Check that each handler start has its own claim and the result is the last claim's."""
    began = Counter((e.fence, e.attempt) for e in effects if e.what == BEGAN)
    claims = {(claim.fence, claim.attempt) for claim in seen.claims}
    for (fence, attempt), times in began.items():
        if fence is None:
            continue
        if times > 1:
            yield Violation("P5", record.id, f"its claim with fence {fence} was run {times} times")
        if (fence, attempt) not in claims:
            what = f"a handler ran attempt {attempt} under fence {fence}, which nobody claimed"
            yield Violation("P5", record.id, what)
    job = record.job
    returned = [e for e in effects if e.what == RETURNED and e.fence is not None]
    if job is None or job.state is not State.SUCCEEDED or not returned or not seen.claims:
        return
    last = seen.claims[-1].fence
    if job.result not in {effect.value for effect in returned if effect.fence == last}:
        yield Violation("P5", job.id, f"its result is not what the holder of fence {last} returned")


def orphans_return(run: RunRecord, replays: Replays) -> Iterator[Violation]:
    """Check P6: the log shows that orphans were reclaimed within a lease and two sweeps."""
    if run.orphans is None or run.bounds is None:
        return
    for orphan in run.orphans:
        seen = replays.get(orphan.job_id)
        if seen is None:
            continue
        back = [at for fence, at in seen.lost if fence == orphan.fence]
        held = bool(seen.claims) and seen.claims[-1].fence == orphan.fence
        if not back and held and seen.state is State.RUNNING:
            yield Violation("P6", orphan.job_id, f"its claim {orphan.fence} was never taken back")
        for at in back:
            if at - orphan.since > run.bounds.milliseconds:
                late = f"it was an orphan for {at - orphan.since} ms"
                yield Violation("P6", orphan.job_id, f"{late}, not {run.bounds.milliseconds:g}")


def _with_log(run: RunRecord, replays: Replays) -> Iterator[tuple[JobRecord, Replay]]:
    for record in run.records:
        if record.job is not None or record.events:
            yield record, replays[record.id]


CHECKS: tuple[Check, ...] = (durable, once, attempted, ended_once, one_holder, orphans_return)
