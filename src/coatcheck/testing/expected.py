"""What a store should hold after a history: the promises again, in plain Python.

Written from the documents (`coatcheck.store.base`, the states and semantics of the contract), and
on purpose not from `coatcheck.model.transition`: two accounts of one thing that must agree.
It knows nothing of transactions, indexes or threads; one job after the other, in dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY

from coatcheck.model.job import Failure, Lease, NewJob, Progress
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import Cancelled, Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.store.base import Report, Settlement

ENDED = ("succeeded", "failed", "cancelled")
GONE_IS_KNOWN_FOR = 7 * 86_400_000

Key = tuple[str, str]  # tenant and id


@dataclass
class ExpectedJob:
    """One job, and everything that should be readable of it."""

    new: NewJob
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
        self.move(state, reason, now)

    def queue_again(self, reason: str, run_at: int, now: int) -> None:
        """Wait for another attempt, of which nothing is known yet."""
        self.run_at, self.queued_at = run_at, now
        self.worker = self.phase = self.progress = None
        self.move("queued", reason, now)


class ExpectedStore:
    """Every job, worker and queue, as a store should show them."""

    def __init__(self) -> None:
        self.jobs: dict[Key, ExpectedJob] = {}
        self.gone: dict[Key, int] = {}
        self.beats: dict[str, int] = {}
        self.paused: set[str] = set()
        self.keys: dict[Key, tuple[NewJob, int]] = {}  # the job that holds a key, and how long
        self.turns: dict[object, str] = {}  # who had the last turn, by where
        self.stale_writes = 0

    # --- handing in

    def conflicts(self, batch: list[NewJob]) -> bool:
        """Whether one of these jobs wants a public id that another job has."""
        taken = {(key[0], job.new.public_id): key[1] for key, job in self.jobs.items()}
        for new in batch:
            if new.public_id is not None and (new.tenant, new.id) not in self.jobs:
                owner = taken.setdefault((new.tenant, new.public_id), new.id)
                if owner != new.id:
                    return True
        return False

    def submit(self, new: NewJob, now: int) -> None:
        """Take a job in, unless its id is there."""
        if (new.tenant, new.id) not in self.jobs:
            job = ExpectedJob(new, run_at=new.run_at, queued_at=now)
            job.move("queued", None, now)
            self.jobs[new.tenant, new.id] = job

    def holder_of(self, tenant: str, key: str, now: int) -> NewJob | None:
        """Return the job that holds a key."""
        holder, until = self.keys.get((tenant, key), (None, 0))
        return holder if until > now else None

    def delete(self, key: Key, now: int) -> None:
        """Forget a job, but not that it was."""
        del self.jobs[key]
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
            job.attempt += 1
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
        """When the next delayed job is due."""
        return min(
            (
                job.run_at
                for job in self.jobs.values()
                if job.state == "queued" and job.run_at > now
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
                job.end("succeeded", None, now)
            case GaveUp(error, reason):
                job.error = error
                job.end("failed", reason, now)
            case Cancelled():
                job.end("cancelled", "cancelled", now)
            case _ if job.cancel_requested:
                job.end("cancelled", "cancelled", now)
            case Errored(error, delay, reason):
                job.error = error
                deadline = job.new.terms.deadline_at
                no_time = deadline is not None and now + delay >= deadline
                if no_time or job.attempt >= job.new.terms.max_attempts:
                    job.end("failed", reason, now)
                else:
                    job.queue_again("retry", now + delay, now)
            case Released(delay, error):
                job.attempt -= 1
                job.error = error or job.error
                job.queue_again("released", now + delay, now)

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
                job.end("cancelled", "cancelled", now)
            elif terms.on_lost == "fail" or job.attempt >= terms.max_attempts:
                job.error = ANY  # its code is told by the reason, its words are the store's
                job.end("failed", "lost", now)
            else:
                job.queue_again("lost", now, now)
                continue
            job.progress = ANY  # nothing says whether a lost attempt's progress stays at the end
        return len(held)

    # --- stopping and clearing away

    def cancel(self, key: Key, now: int) -> None:
        """Stop what is queued; ask what runs."""
        job = self.jobs[key]
        if job.state == "queued":
            job.end("cancelled", "cancelled", now)
        elif job.state == "running" and not job.cancel_requested:
            job.cancel_requested = True
            job.log.append(("state", now, "running"))

    def sweep(self, now: int) -> tuple[int, int]:
        """Fail what is past its deadline, delete what is past its retention."""
        late = [
            job
            for job in self.jobs.values()
            if job.state == "queued"
            and job.new.terms.deadline_at is not None
            and job.new.terms.deadline_at <= now
        ]
        for job in late:
            job.error = ANY
            job.end("failed", "expired", now)
        old = [
            key
            for key, job in self.jobs.items()
            if job.expires_at is not None and job.expires_at <= now
        ]
        for key in old:
            self.delete(key, now)
        return len(late), len(old)
