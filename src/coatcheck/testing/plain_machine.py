"""Random histories of plain jobs: submitted, claimed, settled, cancelled and swept.

`coatcheck.testing.machine` adds waits, children, events and resumes, and describes the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    initialize,
    invariant,
    multiple,
    rule,
)

from coatcheck.errors import Conflict, NotFound
from coatcheck.ids import first_ulid_at
from coatcheck.model.job import Claim, Job, JobInsert, Lease, Terms
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import GaveUp, Outcome, Succeeded, Waiting
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import (
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    Report,
    Settlement,
    Store,
)
from coatcheck.testing.comparison import compare
from coatcheck.testing.expected import (
    ENDED,
    GONE_IS_KNOWN_FOR,
    ExpectedJob,
    ExpectedStore,
    Key,
)
from coatcheck.testing.machine_schedules import ScheduleRules
from coatcheck.testing.random_draws import (
    DRAFTS,
    ENDS,
    KINDS,
    LIMITS,
    OUTCOMES,
    QUEUES,
    REPORTS,
    START,
    leave,
)

T = TypeVar("T")

KEY_HOLDS = 3_000


class PlainMachine(ScheduleRules):
    """Random histories of plain jobs."""

    jobs = Bundle("jobs")
    leases = Bundle("leases")
    workers = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.expected = ExpectedStore()
        self.limits: dict[str, Limit] = {}
        self._seen: dict[Key, Job] = {}
        self._made = 0
        self._runner = asyncio.Runner()
        self.store = self.new_store()
        self._do(self.store.open())

    def new_store(self) -> Store:
        """Return an empty store that has not been opened."""
        raise TypeError("a machine says which store it drives: override new_store")

    def teardown(self) -> None:
        """Reopen the store and check that every acknowledged write is still there."""
        try:
            self._do(self.store.close())
            self._do(self.store.open())
            self._look(known={})
            self._compare_schedules()
        finally:
            self._do(self.store.close())
            self._runner.close()

    # --- submitting

    @rule(target=jobs, draft=DRAFTS)
    def submit(self, draft: dict[str, Any]) -> Key | MultipleResults[Key]:
        """Submit one job, which may be rejected."""
        job = self._job(draft)
        return self._hand_in(self.store.jobs.submit(job, self.now), [job])

    @rule(target=jobs, drafts=st.lists(DRAFTS, max_size=4))
    def submit_batch(self, drafts: list[dict[str, Any]]) -> Key | MultipleResults[Key]:
        """Submit several jobs, which may be rejected together."""
        batch = [self._job(draft) for draft in drafts]
        return self._hand_in(self.store.jobs.submit_batch(batch, self.now), batch)

    @rule(key=jobs, draft=DRAFTS)
    def submit_again(self, key: Key, draft: dict[str, Any]) -> None:
        """Submit another job with an existing id, which changes nothing."""
        if key in self.expected.jobs:
            draft = {**draft, "tenant": key[0], "public_id": None}
            job = self._job(draft)._replace(id=key[1])
            self._hand_in(self.store.jobs.submit(job, self.now), [job])

    @rule(target=jobs, draft=DRAFTS, key=st.sampled_from("ab"))
    def submit_once(self, draft: dict[str, Any], key: str) -> Key | MultipleResults[Key]:
        """Submit a job with an idempotency key that another job may hold."""
        job = self._job(draft)
        once = Idempotency(key, job.input, self.now + KEY_HOLDS)
        submit = self.store.jobs.submit(job, self.now, once)
        holder = self.expected.holder_of(job.tenant, key, self.now)
        if holder is not None:
            earlier = self._do(submit)
            assert earlier == ExistingSubmission(holder.id, 1, holder.input)
            return multiple()
        refused = self.expected.conflicts([job])
        made = self._hand_in(submit, [job])
        if not refused:
            self.expected.keys[job.tenant, key] = (job, once.expires_at)
        return made

    @rule(
        target=jobs,
        draft=DRAFTS,
        took=st.sampled_from([0, 15, 1_000]),
        outcome=ENDS,
        report=st.none() | REPORTS,
    )
    def submit_finished(
        self, draft: dict[str, Any], took: int, outcome: Succeeded | GaveUp, report: Report | None
    ) -> Key | MultipleResults[Key]:
        """Submit a finished job, which may be rejected, and repeat the submit."""
        job = self._job(draft)
        ended = FinishedJob(self.now, outcome, _of(Lease(job.tenant, job.id, 1), report))
        self.now += took
        if self.expected.conflicts([job]):
            return self._hand_in(self.store.jobs.submit_finished(job, ended, self.now), [job])
        self.expected.submit_finished(job, ended, self.now)
        for _ in range(2):
            self._do(self.store.jobs.submit_finished(job, ended, self.now))
        return job.tenant, job.id

    def _hand_in(
        self, submit: Coroutine[Any, Any, object], new: list[JobInsert]
    ) -> Key | MultipleResults[Key]:
        if self.expected.conflicts(new):
            try:
                self._do(submit)
            except Conflict:
                return multiple()
            raise AssertionError("a public id that is taken was not refused")
        self._do(submit)
        for job in new:
            self.expected.submit(job, self.now)
        return multiple(*((job.tenant, job.id) for job in new))

    def _job(self, draft: dict[str, Any]) -> JobInsert:
        self._made += 1
        deadline = draft["deadline"]
        return JobInsert(
            id=first_ulid_at(self.now)[:10] + f"{self._made:016d}",
            kind=draft["kind"],
            input=str(self._made),
            created_at=self.now,
            run_at=self.now + draft["delay"],
            tenant=draft["tenant"],
            public_id=draft["public_id"],
            queue=draft["queue"],
            priority=draft["priority"],
            limit_key=draft["limit_key"],
            terms=Terms(
                max_attempts=draft["attempts"],
                on_lost=draft["on_lost"],
                keep_succeeded_ms=draft["keep"],
                keep_failed_ms=draft["keep"] * 2,
                deadline_at=None if deadline is None else self.now + deadline,
            ),
        )

    # --- working

    @initialize(target=workers, limits=st.sampled_from([{}, LIMITS]))
    def start_two_workers(self, limits: dict[str, Limit]) -> MultipleResults[str]:
        """Start two workers with the same limits, because jobs need workers."""
        self.limits = limits
        return multiple(self._start_worker(), self._start_worker())

    def _start_worker(self) -> str:
        # Every start has a new worker id, as in production.
        self._made += 1
        worker = f"worker-{self._made}"
        self._do(
            self.store.workers.register_worker(WorkerInfo(worker, "here", 1, KINDS, 4, self.now))
        )
        self.expected.beats[worker] = 0
        return worker

    @rule(worker=workers)
    def beat(self, worker: str) -> None:
        """Send a heartbeat, which is rejected if the worker was removed."""
        known = worker in self.expected.beats
        assert self._do(self.store.workers.heartbeat(worker)) is known
        if known:
            self.expected.beats[worker] += 1

    @rule(
        target=workers,
        worker=workers,
        judged=st.sampled_from(["by its count", "by an old count", "itself"]),
    )
    def replace_worker(self, worker: str, judged: str) -> str:
        """Remove a worker, on its own request or as lost, rightly or not, and start another."""
        count = self.expected.beats.get(worker, 0)
        beats = {"by its count": count, "by an old count": count - 1, "itself": None}[judged]
        self._remove_worker(worker, beats)
        return self._start_worker()

    @rule(target=workers, lease=leases)
    def lose_the_holder(self, lease: Lease) -> str | MultipleResults[str]:
        """Lose the worker of a job, with all its jobs, and start another."""
        job = self.expected.jobs.get((lease.tenant, lease.job_id))
        if job is None or job.worker is None:
            return multiple()
        self._remove_worker(job.worker, None)
        return self._start_worker()

    def _remove_worker(self, worker: str, beats: int | None) -> None:
        self._sweep_before_a_cascade()
        lost = self._do(self.store.workers.remove_worker(worker, beats, self.now))
        assert lost == self.expected.remove_worker(worker, beats, self.now)
        self._finish_cascades()

    @rule(target=leases, worker=workers, limit=st.integers(0, 3))
    def claim(self, worker: str, limit: int) -> Lease | MultipleResults[Lease]:
        """Claim due jobs of any kind."""
        return self._claim(worker, KINDS, limit)

    @rule(target=leases, worker=workers, kind=st.sampled_from(KINDS))
    def claim_one_kind(self, worker: str, kind: str) -> Lease | MultipleResults[Lease]:
        """Claim a job as a worker of one kind."""
        return self._claim(worker, (kind,), 1)

    @rule(
        target=leases,
        worker=workers,
        ends=st.lists(st.tuples(OUTCOMES, st.none() | REPORTS), min_size=1, max_size=4),
    )
    def run_jobs(
        self, worker: str, ends: list[tuple[Outcome, Report | None]]
    ) -> Lease | MultipleResults[Lease]:
        """Claim jobs and settle their attempts in one call."""
        taken = self._claim(worker, KINDS, len(ends))
        self._settle([Settlement(lease, *end) for lease, end in zip(taken.values, ends)])  # noqa: B905 - there may be fewer jobs
        return taken

    def _claim(self, worker: str, kinds: tuple[str, ...], limit: int) -> MultipleResults[Lease]:
        if self.expected.due_to_wake(self.now):
            limit = max(1, limit)  # whether a claim with limit 0 wakes jobs is not specified
        known = {kind: self.limits[kind] for kind in kinds if kind in self.limits}
        claims, next_due = self._do(self.store.workers.claim(worker, kinds, limit, self.now, known))
        expected = self.expected.claim(worker, kinds, limit, self.now, known)
        assert [_facts(claim) for claim in claims] == [_expected_facts(job) for job in expected]
        if worker in self.expected.beats:
            assert next_due == self.expected.next_due(self.now)
        return multiple(*(claim.lease for claim in claims))

    @rule(lease=leases, outcome=OUTCOMES, report=st.none() | REPORTS)
    def settle(self, lease: Lease, outcome: Outcome, report: Report | None) -> None:
        """Settle an attempt with a current or a stale lease."""
        self._settle([Settlement(lease, outcome, report)])

    def _settle(self, settlements: list[Settlement]) -> None:
        self._sweep_before_a_cascade()
        timed = [
            one._replace(outcome=self._from_now(one.outcome), report=_of(one.lease, one.report))
            for one in settlements
        ]
        families = {self.expected.family_of(one.lease) for one in timed}
        # The order of a parent and its child in one settle call is not specified.
        for several in [timed] if len(families) == len(timed) else [[one] for one in timed]:
            settled = self._do(self.store.workers.settle(several, self.now))
            assert settled == [self.expected.settle(one, self.now) for one in several]
        self._finish_cascades()

    def _from_now(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Waiting) and outcome.until is not None:
            return replace(outcome, until=self.now + outcome.until)
        return outcome

    @rule(lease=leases, report=REPORTS)
    def report(self, lease: Lease, report: Report) -> None:
        """Report with a current or a stale lease."""
        said = _of(lease, report) or report
        reported = self._do(self.store.workers.report(lease, said, self.now))
        assert reported is self.expected.report(lease, said, self.now)

    # --- everything else

    @rule(key=jobs)
    def cancel(self, key: Key) -> None:
        """Cancel a job in any state."""
        self._cancel(key)

    @rule(lease=leases, times=st.integers(1, 2))
    def cancel_what_was_claimed(self, lease: Lease, times: int) -> None:
        """Cancel a job that was claimed and may still be running."""
        for _ in range(times):
            self._cancel((lease.tenant, lease.job_id))

    def _cancel(self, key: Key) -> None:
        self._sweep_before_a_cascade()
        if key in self.expected.jobs:
            self.expected.cancel(key, self.now)
            job = self._do(self.store.jobs.cancel(*key, self.now))
            assert job.state == self.expected.jobs[key].state
            self._finish_cascades()

    @rule(key=jobs)
    def delete(self, key: Key) -> None:
        """Delete a job, which may be unfinished or already gone."""
        job = self.expected.jobs.get(key)
        try:
            deleted = self._do(self.store.jobs.delete(*key, self.now))
        except Conflict:
            assert job is not None
            assert job.state not in ENDED
        except NotFound:
            assert job is None
        else:
            assert job is not None
            assert job.state in ENDED
            payloads = 1 + (job.result is not None)
            counts = (payloads, len(job.log), len(job.steps))
            others = {"artifacts": len(job.artifacts), "messages": len(job.messages)}
            assert deleted == DeletedJob(key[1], *counts, **others)
            self.expected.delete(key, self.now)

    @rule(queue=st.sampled_from(QUEUES), paused=st.sampled_from([False, False, True]))
    def pause_queue(self, queue: str, paused: bool) -> None:
        """Pause or resume a queue."""
        self._do(self.store.queues.pause_queue(queue, paused, self.now))
        (self.expected.paused.add if paused else self.expected.paused.discard)(queue)

    @rule(milliseconds=st.sampled_from([10, 1, 45, 1_000, 5_000, GONE_IS_KNOWN_FOR]))
    def let_time_pass(self, milliseconds: int) -> None:
        """Advance the time: jobs become due, and deadlines and retention run out."""
        self.now += milliseconds

    @rule()
    def sweep(self) -> None:
        """Sweep until nothing is left to do."""
        expired, deleted, idle = 0, 0, 0
        # Sweeping one generation cancels or releases the next.
        generations = self.expected.generations()
        while idle <= generations:
            swept = self._do(self.store.maintenance.sweep(self.now))
            expired, deleted = expired + swept.expired, deleted + swept.deleted
            idle = 0 if swept.more else idle + 1
        assert (expired, deleted) == self.expected.sweep(self.now)

    # The number of children that are cancelled together with their parent is not specified, and so
    # neither is the outcome of a child whose deadline has passed. Therefore sweep before each such
    # cancel, and after it.

    def _sweep_before_a_cascade(self) -> None:
        if any(job.parent and job.state not in ENDED for job in self.expected.jobs.values()):
            self.sweep()

    def _finish_cascades(self) -> None:
        if self.expected.cascaded:
            self.sweep()

    # --- checked after each step

    @invariant()
    def the_store_holds_what_it_should(self) -> None:
        """Check jobs, logs, lists, queues, workers and counters against the expected ones."""
        self._look(known=self._seen)

    def _look(self, known: Mapping[Key, Job]) -> None:
        found = self._do(compare(self.store, self.expected, self.now, known))
        for key, job in found.items():
            before = self._seen.get(key)
            if before is not None:
                assert job.fence >= before.fence
                assert job == before or not before.state.is_terminal
        self._seen.update(found)

    def _do(self, deed: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(deed)


def _of(lease: Lease, report: Report | None) -> Report | None:
    """Return the report with its files assigned to the reporting job."""
    if report is None or not report.files:
        return report
    return report._replace(files=tuple(leave(lease, file.artifact.name) for file in report.files))


def _facts(claim: Claim) -> tuple[object, ...]:
    return (claim.lease, claim.kind, claim.queue, claim.input, claim.attempt, claim.terms)


def _expected_facts(job: ExpectedJob) -> tuple[object, ...]:
    new = job.new
    lease = Lease(new.tenant, new.id, job.fence)
    return (lease, new.kind, new.queue, new.input, job.attempt, new.terms)
