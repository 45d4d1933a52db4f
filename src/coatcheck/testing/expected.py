"""What a store should hold after a history: the promises again, in plain Python.

Written from the documents (`coatcheck.store.base`, the states and semantics of the contract), and
on purpose not from `coatcheck.model.transition`: two accounts of one thing that must agree.
It knows nothing of transactions, indexes or threads; one job after the other, in dictionaries.
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
    """One job, and everything that should be readable of it."""

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
    # (type, time, state); the state is None for entries that do not tell of one.
    log: list[tuple[str, int, str | None]] = field(default_factory=list)
    artifacts: tuple[Artifact, ...] = ()
    steps: dict[int, Step] = field(default_factory=dict)
    messages: list[SentEvent] = field(default_factory=list)
    waits_for: list[set[str]] = field(default_factory=list)  # all of one of these
    resumed_after: int = 0  # so many entries of the log

    @property
    def key(self) -> Key:
        """Its tenant and id."""
        return self.new.tenant, self.new.id

    @property
    def parent(self) -> Key | None:
        """The job that spawned it."""
        parent = self.new.terms.parent
        return None if parent is None else (self.new.tenant, parent)

    def move(self, state: str, reason: str | None, now: int) -> None:
        """Change the state and log it."""
        self.state, self.reason = state, reason
        self.log.append(("state", now, state))

    def end(self, state: str, reason: str | None, now: int) -> None:
        """Reach an end, from which retention counts."""
        terms = self.new.terms
        kept = terms.keep_succeeded_ms if state == "succeeded" else terms.keep_failed_ms
        self.finished_at, self.expires_at = now, now + kept
        self.worker = self.phase = None
        self.waits_for = []
        self.move(state, reason, now)

    def queue_again(self, reason: str, run_at: int, now: int) -> None:
        """Wait for another attempt, of which nothing is known yet, or for the same to go on."""
        self.run_at, self.queued_at = run_at, now
        self.worker = self.phase = None
        if reason != "woken":
            self.progress = None
        self.waits_for = []
        self.move("queued", reason, now)


class ExpectedStore:
    """Every job, worker and queue, as a store should show them."""

    def __init__(self) -> None:
        self.jobs: dict[Key, ExpectedJob] = {}
        self.gone: dict[Key, int] = {}
        self.deleted: list[ExpectedJob] = []
        self.beats: dict[str, int] = {}
        self.paused: set[str] = set()
        self.keys: dict[Key, tuple[JobInsert, int]] = {}  # the job that holds a key, and how long
        self.schedules: dict[Key, Schedule] = {}  # by tenant and name
        self.turns: dict[object, str] = {}  # who had the last turn, by where
        self.stale_writes = 0
        self.cascaded = False  # whether a cancel has reached children since the last sweep

    # --- handing in

    def conflicts(self, batch: list[JobInsert]) -> bool:
        """Whether one of these jobs wants a public id that another job has."""
        taken = {(key[0], job.new.public_id): key[1] for key, job in self.jobs.items()}
        for new in batch:
            if new.public_id is not None and (new.tenant, new.id) not in self.jobs:
                owner = taken.setdefault((new.tenant, new.public_id), new.id)
                if owner != new.id:
                    return True
        return False

    def submit(self, new: JobInsert, now: int) -> None:
        """Take a job in, unless its id is there."""
        if (new.tenant, new.id) not in self.jobs:
            job = ExpectedJob(new, run_at=new.run_at, queued_at=now)
            job.move("queued", None, now)
            self.jobs[new.tenant, new.id] = job

    def submit_finished(self, new: JobInsert, ended: FinishedJob, now: int) -> None:
        """Take a job in that has run, unless its id is there."""
        if (new.tenant, new.id) in self.jobs:
            return
        self.submit(new, new.created_at)
        job = self.jobs[new.tenant, new.id]
        job.attempt = job.fence = 1
        job.started_at = ended.began_at
        job.move("running", None, ended.began_at)
        self.settle(Settlement(Lease(*job.key, 1), ended.outcome, ended.report), now)

    def holder_of(self, tenant: str, key: str, now: int) -> JobInsert | None:
        """Return the job that holds a key."""
        holder, until = self.keys.get((tenant, key), (None, 0))
        return holder if until > now else None

    def is_newest(self, seen: Schedule) -> bool:
        """Whether nothing was written to a schedule since it was seen."""
        there = self.schedules.get((seen.tenant, seen.name))
        return there is not None and there.revision == seen.revision

    def fire(self, firing: ScheduleFiring, now: int) -> int | None:
        """Make jobs of a schedule that is as it was seen."""
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
        """Forget a job, but not that it was, nor what it has used."""
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
        """Hand out what is due and what the limits leave room for, each in its turn."""
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
        """Choose by priority; then the tenant whose turn it is; of each of its queues the key whose
        turn it is; then the oldest.
        """
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
        """When the next job is due that is delayed, or waits for a time."""
        return min(
            (
                job.run_at
                for job in self.jobs.values()
                if job.state in ("queued", "waiting") and now < job.run_at != NEVER
            ),
            default=None,
        )

    def settle(self, settlement: Settlement, now: int) -> bool:
        """End an attempt, if the lease is the newest."""
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
        """Note what a running job says."""
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
        """Take the jobs of a lost worker away from it."""
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
                job.error = ANY  # its code is told by the reason, its words are the store's
                self._end(job, "failed", "lost", now)
            else:
                job.queue_again("lost", now, now)
                continue
            job.progress = ANY  # nothing says whether a lost attempt's progress stays at the end
        for job in held:
            if job.state == "cancelled":
                self._cancel_children(job, now)
        return len(held)

    # --- waiting and going on

    def due_to_wake(self, now: int) -> list[ExpectedJob]:
        """Those that wait for a time that has come."""
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
        """Keep an event, and wake the job if it waits for it."""
        job = self.jobs[key]
        number = sum(message.name == name for message in job.messages)
        job.messages.append(SentEvent(name, number, data, now))
        for group in job.waits_for:
            group.discard(event_sent(name, number))
        self._wake_if_all_is_there(job, now)

    def resume(self, key: Key, now: int) -> None:
        """Begin anew, with all that was done, if it did not succeed."""
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

    # --- families

    def children_of(self, key: Key) -> list[ExpectedJob]:
        """The jobs that one has spawned."""
        return [job for job in self.jobs.values() if job.parent == key]

    def family_of(self, lease: Lease) -> Key:
        """The oldest known forebear of a job."""
        key = (lease.tenant, lease.job_id)
        while key in self.jobs and (parent := self.jobs[key].parent) is not None:
            key = parent
        return key

    def generations(self) -> int:
        """How many jobs have spawned others: no line of descent is longer."""
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

    # --- stopping and clearing away

    def cancel(self, key: Key, now: int) -> None:
        """Stop what is queued; ask what runs."""
        job = self.jobs[key]
        if job.state in ("queued", "waiting"):
            self._end(job, "cancelled", "cancelled", now)
            self._cancel_children(job, now)
        elif job.state == "running" and not job.cancel_requested:
            job.cancel_requested = True
            job.log.append(("state", now, "running"))

    def sweep(self, now: int) -> tuple[int, int]:
        """Fail what is past its deadline, delete what is past its retention."""
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
            job.progress = ANY  # as of a lost attempt
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
