"""Expected contents of a store after a history: its guarantees as a model in plain Python.

The model is written from the documentation (`coatcheck.store.base`, the states and semantics of the
contract) and deliberately not from `coatcheck.model.transition`, so two independent descriptions
must agree. It has no transactions, indexes or threads: it handles one job after another, in
dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import ANY

from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Failure, JobInsert, Lease, Progress
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import (
    Cancelled,
    Errored,
    GaveUp,
    Outcome,
    Released,
    Succeeded,
    Waiting,
)
from coatcheck.model.schedule import Schedule
from coatcheck.model.step import SentEvent, Step, child_finished, event_sent
from coatcheck.store.base import FinishedJob, Report, Settlement
from coatcheck.store.schedules import ScheduleFiring

ENDED = ("succeeded", "failed", "cancelled")
NEVER = 253_402_300_799_999  # the end of the year 9999: no time at all
GONE_IS_KNOWN_FOR = 7 * 86_400_000
LEFT_TO_ITS_WORKER = 60_000  # after its deadline

Key = tuple[str, str]  # tenant and id


@dataclass
class ExpectedJob:
    """A job with everything that should be readable of it."""

    new: JobInsert
    run_at: int
    queued_at: int
    state: str = "queued"
    reason: str | None = None
    phase: str | None = None
    progress: Progress | Any = None
    error: Failure | Any = None
    result: str | None = None
    attempt: int = 0
    fence: int = 0
    worker: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    expires_at: int | None = None
    cancel_requested: bool = False
    # (type, time, state); the state is None for entries without one.
    log: list[tuple[str, int, str | None]] = field(default_factory=list)
    artifacts: tuple[Artifact, ...] = ()
    steps: dict[int, Step] = field(default_factory=dict)
    messages: list[SentEvent] = field(default_factory=list)
    waits_for: list[set[str]] = field(default_factory=list)  # wakes once a set is empty
    resumed_after: int = 0  # number of log entries before the last resume

    @property
    def key(self) -> Key:
        """The job's tenant and id."""
        return self.new.tenant, self.new.id

    @property
    def parent(self) -> Key | None:
        """The tenant and id of the parent."""
        parent = self.new.terms.parent
        return None if parent is None else (self.new.tenant, parent)

    def move(self, state: str, reason: str | None, now: int) -> None:
        """Change the state and log it."""
        self.state, self.reason = state, reason
        self.log.append(("state", now, state))

    def end(self, state: str, reason: str | None, now: int) -> None:
        """Finish the job and start its retention."""
        terms = self.new.terms
        kept = terms.keep_succeeded_ms if state == "succeeded" else terms.keep_failed_ms
        self.finished_at, self.expires_at = now, now + kept
        self.worker = self.phase = None
        self.waits_for = []
        self.move(state, reason, now)

    def queue_again(self, reason: str, run_at: int, now: int) -> None:
        """Queue the job for another attempt, or to continue the same one after a wait."""
        self.run_at, self.queued_at = run_at, now
        self.worker = self.phase = None
        if reason != "woken":
            self.progress = None
        self.waits_for = []
        self.move("queued", reason, now)


class ExpectedStore:
    """Every job, worker and queue as a store should show them."""

    def __init__(self) -> None:
        self.jobs: dict[Key, ExpectedJob] = {}
        self.gone: dict[Key, int] = {}
        self.deleted: list[ExpectedJob] = []
        self.beats: dict[str, int] = {}
        self.paused: set[str] = set()
        self.keys: dict[Key, tuple[JobInsert, int]] = {}  # the job that holds a key, and until when
        self.schedules: dict[Key, Schedule] = {}  # by tenant and name
        self.turns: dict[object, str] = {}  # the tenant or key served last, by rotation
        self.stale_writes = 0
        self.cascaded = False  # whether a cancel has reached children since the last sweep

    # --- submitting

    def conflicts(self, batch: list[JobInsert]) -> bool:
        """Return whether one of these jobs has a public id that another job uses."""
        taken = {(key[0], job.new.public_id): key[1] for key, job in self.jobs.items()}
        for new in batch:
            if new.public_id is not None and (new.tenant, new.id) not in self.jobs:
                owner = taken.setdefault((new.tenant, new.public_id), new.id)
                if owner != new.id:
                    return True
        return False

    def submit(self, new: JobInsert, now: int) -> None:
        """Add a job, unless its id exists."""
        if (new.tenant, new.id) not in self.jobs:
            job = ExpectedJob(new, run_at=new.run_at, queued_at=now)
            job.move("queued", None, now)
            self.jobs[new.tenant, new.id] = job

    def submit_finished(self, new: JobInsert, ended: FinishedJob, now: int) -> None:
        """Add a finished job, unless its id exists."""
        if (new.tenant, new.id) in self.jobs:
            return
        self.submit(new, new.created_at)
        job = self.jobs[new.tenant, new.id]
        job.attempt = job.fence = 1
        job.started_at = ended.began_at
        job.move("running", None, ended.began_at)
        self.settle(Settlement(Lease(*job.key, 1), ended.outcome, ended.report), now)

    def holder_of(self, tenant: str, key: str, now: int) -> JobInsert | None:
        """Return the job that holds an idempotency key."""
        holder, until = self.keys.get((tenant, key), (None, 0))
        return holder if until > now else None

    def is_newest(self, seen: Schedule) -> bool:
        """Return whether a schedule still has the revision that was seen."""
        there = self.schedules.get((seen.tenant, seen.name))
        return there is not None and there.revision == seen.revision

    def fire(self, firing: ScheduleFiring, now: int) -> int | None:
        """Submit the jobs of a firing if its schedule is unchanged."""
        seen, jobs = firing.seen, firing.jobs
        if not self.is_newest(seen):
            return None
        last = self.jobs.get((seen.tenant, seen.last_job or ""))
        if firing.unless_running and last is not None and last.state not in ENDED:
            jobs = ()
        for job in jobs:
            self.submit(job, now)
        moved = replace(
            seen, revision=firing.revision, next_at=firing.next_at, problem=firing.problem
        )
        if jobs:
            moved = replace(moved, last_job=jobs[-1].id, last_at=firing.last_at)
        self.schedules[seen.tenant, seen.name] = moved
        return len(jobs)

    def delete(self, key: Key, now: int) -> None:
        """Delete a job, but keep its tombstone and its usage."""
        self.deleted.append(self.jobs.pop(key))
        self.gone[key] = now

    # --- working

    def claim(
        self,
        worker: str,
        kinds: tuple[str, ...],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
    ) -> list[ExpectedJob]:
        """Claim the jobs that are due and within the limits, in turn."""
        if worker not in self.beats:
            return []
        for job in self.due_to_wake(now):
            self._wake(job, now)
        waiting = [
            job
            for job in self.jobs.values()
            if job.state == "queued"
            and job.run_at <= now
            and job.new.kind in kinds
            and job.new.queue not in self.paused
            and (job.new.terms.deadline_at is None or job.new.terms.deadline_at > now)
        ]
        taken: list[ExpectedJob] = []
        while len(taken) < limit:
            free = [job for job in waiting if job not in taken and self._has_room(job, limits)]
            if not free:
                break
            job = self._next(free, tuple(sorted(kinds)))
            job.attempt += job.reason != "woken"
            job.fence += 1
            job.worker, job.started_at = worker, now
            job.move("running", None, now)
            taken.append(job)
        return taken

    def _has_room(self, job: ExpectedJob, limits: Mapping[str, Limit]) -> bool:
        limit = limits.get(job.new.kind)
        if limit is None or limit.concurrency is None:
            return True
        if limit.by_key and job.new.limit_key is None:
            return True
        beside = [
            other
            for other in self.jobs.values()
            if other.state == "running" and other.new.kind == job.new.kind
        ]
        if limit.by_key:
            mine = (job.new.tenant, job.new.limit_key)
            beside = [each for each in beside if (each.new.tenant, each.new.limit_key) == mine]
        return len(beside) < limit.concurrency

    def _next(self, free: list[ExpectedJob], kinds: tuple[str, ...]) -> ExpectedJob:
        """Return the next job: by priority, tenant's turn, key's turn per queue, then age."""
        priority = max(job.new.priority for job in free)
        free = [job for job in free if job.new.priority == priority]
        tenant = self._whose_turn((kinds, priority), {job.new.tenant for job in free})
        lines: dict[tuple[str, str], list[ExpectedJob]] = {}
        for job in free:
            if job.new.tenant == tenant:
                lines.setdefault((job.new.kind, job.new.queue), []).append(job)
        heads = {}
        for line, jobs in lines.items():
            keys = {job.new.limit_key or "" for job in jobs}
            key = self._whose_turn((line, priority, tenant), keys)
            first = min(job.new.id for job in jobs if (job.new.limit_key or "") == key)
            heads[first] = (line, key)
        line, key = heads[min(heads)]
        self.turns[kinds, priority] = tenant
        self.turns[line, priority, tenant] = key
        return self.jobs[tenant, min(heads)]

    def _whose_turn(self, place: object, names: set[str]) -> str:
        last = self.turns.get(place)
        later = [name for name in names if last is None or name > last]
        return min(later or names)

    def next_due(self, now: int) -> int | None:
        """Return when the next delayed or waiting job is due."""
        return min(
            (
                job.run_at
                for job in self.jobs.values()
                if job.state in ("queued", "waiting") and now < job.run_at != NEVER
            ),
            default=None,
        )

    def settle(self, settlement: Settlement, now: int) -> bool:
        """Settle an attempt, if its lease is the latest."""
        lease, outcome, last_words = settlement
        job = self.jobs.get((lease.tenant, lease.job_id))
        if job is None or job.fence != lease.fence:
            self.stale_writes += 1
            return False
        if job.state != "running":
            return True
        if last_words is not None:
            self.report(lease, last_words, now)
        self._end_attempt(job, outcome, now)
        return True

    def _end_attempt(self, job: ExpectedJob, outcome: Outcome, now: int) -> None:
        match outcome:
            case Succeeded(result):
                job.result, job.error = result, None
                self._end(job, "succeeded", None, now)
            case GaveUp(error, reason):
                job.error = error
                self._end(job, "failed", reason, now)
            case Cancelled():
                self._end(job, "cancelled", "cancelled", now)
                self._cancel_children(job, now)
            case _ if job.cancel_requested:
                self._end(job, "cancelled", "cancelled", now)
                self._cancel_children(job, now)
            case Errored(error, delay, reason):
                job.error = error
                deadline = job.new.terms.deadline_at
                no_time = deadline is not None and now + delay >= deadline
                if no_time or job.attempt >= job.new.terms.max_attempts:
                    self._end(job, "failed", reason, now)
                else:
                    job.queue_again("retry", now + delay, now)
            case Released(delay, error):
                job.attempt -= 1
                job.error = error or job.error
                job.queue_again("released", now + delay, now)
            case Waiting(until, groups):
                job.run_at = NEVER if until is None else until
                job.worker = job.phase = None
                job.waits_for = [
                    {what for what in group if self._is_to_come(job, what)} for group in groups
                ]
                job.move("waiting", "waiting", now)
                self._wake_if_all_is_there(job, now)

    def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Record a report of a running job."""
        job = self.jobs.get((lease.tenant, lease.job_id))
        if job is None or job.fence != lease.fence or job.state != "running":
            self.stale_writes += 1
            return False
        job.log.extend((str(event.type), now, None) for event in report.events)
        if report.progress is not None or report.phase is not None:
            job.log.append(("progress", now, None))
        job.progress = report.progress or job.progress
        job.phase = report.phase or job.phase
        for step in report.steps:
            if job.steps.get(step.seq) != step:
                job.steps[step.seq] = step
                job.log.append(("step", now, None))
        for child in report.children:
            self.submit(child, now)
        left = [*job.artifacts, *(file.artifact for file in report.files)]
        by_name = {artifact.name: artifact for artifact in left}
        job.artifacts = tuple(by_name[name] for name in sorted(by_name))
        return True

    def remove_worker(self, worker: str, beats: int | None, now: int) -> int | None:
        """Remove a lost worker and requeue, fail or cancel its jobs."""
        if worker not in self.beats or beats not in (None, self.beats[worker]):
            return None
        del self.beats[worker]
        held = [job for job in self.jobs.values() if job.worker == worker]
        for job in held:
            terms = job.new.terms
            job.fence += 1
            if job.cancel_requested:
                self._end(job, "cancelled", "cancelled", now)
            elif terms.on_lost == "fail" or job.attempt >= terms.max_attempts:
                job.error = ANY  # the reason implies the code, and the store chooses the text
                self._end(job, "failed", "lost", now)
            else:
                job.queue_again("lost", now, now)
                continue
            job.progress = ANY  # whether a finished job keeps lost progress is not specified
        for job in held:
            if job.state == "cancelled":
                self._cancel_children(job, now)
        return len(held)

    # --- waiting and waking

    def due_to_wake(self, now: int) -> list[ExpectedJob]:
        """Return the waiting jobs whose time has come."""
        return [job for job in self.jobs.values() if job.state == "waiting" and job.run_at <= now]

    def _is_to_come(self, job: ExpectedJob, what: str) -> bool:
        running = (each for each in self.jobs.values() if each.state not in ENDED)
        if any(what == child_finished(each.new.id) for each in running):
            return True
        sent = {event_sent(message.name, message.number) for message in job.messages}
        return what.startswith("event:") and what not in sent

    def _wake(self, job: ExpectedJob, now: int) -> None:
        job.queue_again("woken", now, now)

    def _wake_if_all_is_there(self, job: ExpectedJob, now: int) -> None:
        if job.state == "waiting" and any(not group for group in job.waits_for):
            self._wake(job, now)

    def send(self, key: Key, name: str, data: str, now: int) -> None:
        """Store an event, and wake the job if it waits for that event."""
        job = self.jobs[key]
        number = sum(message.name == name for message in job.messages)
        job.messages.append(SentEvent(name, number, data, now))
        for group in job.waits_for:
            group.discard(event_sent(name, number))
        self._wake_if_all_is_there(job, now)

    def resume(self, key: Key, now: int) -> None:
        """Queue a failed or cancelled job again, with its recorded steps."""
        job = self.jobs[key]
        if job.state not in ("failed", "cancelled"):
            return
        job.resumed_after = len(job.log)
        job.attempt, job.error, job.cancel_requested = 0, None, False
        job.finished_at = job.expires_at = None
        terms = job.new.terms
        if terms.deadline_at is not None and terms.deadline_at <= now:
            job.new = job.new._replace(terms=terms._replace(deadline_at=None))
        job.queue_again("resumed", now, now)

    # --- parents and children

    def children_of(self, key: Key) -> list[ExpectedJob]:
        """Return the children of a job."""
        return [job for job in self.jobs.values() if job.parent == key]

    def family_of(self, lease: Lease) -> Key:
        """Return the oldest known ancestor of a job."""
        key = (lease.tenant, lease.job_id)
        while key in self.jobs and (parent := self.jobs[key].parent) is not None:
            key = parent
        return key

    def generations(self) -> int:
        """Return the number of parents, which bounds the depth of descent."""
        return len({job.parent for job in self.jobs.values() if job.parent is not None})

    def _end(self, job: ExpectedJob, state: str, reason: str | None, now: int) -> None:
        job.end(state, reason, now)
        for waiting in self.jobs.values():
            for group in waiting.waits_for:
                group.discard(child_finished(job.new.id))
            self._wake_if_all_is_there(waiting, now)

    def _cancel_children(self, job: ExpectedJob, now: int) -> None:
        for child in self.children_of(job.key):
            if child.state not in ENDED and not child.cancel_requested:
                self.cascaded = True
                self.cancel(child.key, now)

    # --- cancelling and sweeping

    def cancel(self, key: Key, now: int) -> None:
        """Cancel a queued or waiting job, or request the cancellation of a running one."""
        job = self.jobs[key]
        if job.state in ("queued", "waiting"):
            self._end(job, "cancelled", "cancelled", now)
            self._cancel_children(job, now)
        elif job.state == "running" and not job.cancel_requested:
            job.cancel_requested = True
            job.log.append(("state", now, "running"))

    def sweep(self, now: int) -> tuple[int, int]:
        """Fail jobs past their deadline and delete jobs past their retention."""
        late = [
            job
            for job in self.jobs.values()
            if job.state in ("queued", "waiting")
            and job.new.terms.deadline_at is not None
            and job.new.terms.deadline_at <= now
        ]
        for job in late:
            job.error = ANY
            self._end(job, "failed", "expired", now)
        overran = [
            job
            for job in self.jobs.values()
            if job.state == "running"
            and job.new.terms.deadline_at is not None
            and job.new.terms.deadline_at + LEFT_TO_ITS_WORKER <= now
        ]
        for job in overran:
            job.fence += 1
            job.progress = ANY  # as for a lost attempt
            if job.cancel_requested:
                self._end(job, "cancelled", "cancelled", now)
            else:
                job.error = ANY
                self._end(job, "failed", "timeout", now)
        for job in overran:
            if job.state == "cancelled":
                self._cancel_children(job, now)
        unfinished = {key for key, job in self.jobs.items() if job.state not in ENDED}
        old = [
            key
            for key, job in self.jobs.items()
            if job.expires_at is not None and job.expires_at <= now and job.parent not in unfinished
        ]
        for key in old:
            self.delete(key, now)
        self.cascaded = False
        return len(late) + len(overran), len(old)
