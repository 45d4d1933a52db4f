"""One table of cases for the rules that exist twice: in `model/transition.py` and in SQL.

SQL repeats them in SQLite's bulk insert and in PostgreSQL's fast claim and fast settle.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from coatcheck.model import transition as rules
from coatcheck.model.event import EventType
from coatcheck.model.job import Failure, Job, JobInsert, Terms
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.transition import JobStatus
from coatcheck.store.base import Settlement, Store
from coatcheck.testing.conformance.arrange import NOW, TENANT, WORKER, new_job, worker_info

BOOM = Failure("boom", "it broke")
# Claims, settlements and retries happen at these times after the submit.
CLAIM_MS, SETTLE_MS, RECLAIM_MS = 10, 25, 3_600_000


class RuleCase(NamedTuple):
    """An attempt's outcome under the terms of its job; `jobs` of them are settled at once."""

    outcome: Outcome
    terms: Terms = Terms()
    jobs: int = 1


CASES = {
    "success": RuleCase(Succeeded("1")),
    "success in a set": RuleCase(Succeeded("1"), jobs=5),
    "success, kept shortly": RuleCase(Succeeded("1"), Terms(keep_succeeded_ms=5)),
    "failure": RuleCase(GaveUp(BOOM)),
    "failure in a set": RuleCase(GaveUp(BOOM), Terms(keep_failed_ms=7), jobs=5),
    "retry at once": RuleCase(Errored(BOOM, 0)),
    "retry later": RuleCase(Errored(BOOM, 60_000), jobs=5),
    "last attempt": RuleCase(Errored(BOOM, 0), Terms(max_attempts=1)),
    "release": RuleCase(Released(0)),
    "release with a delay": RuleCase(Released(60_000, BOOM)),
}


def status_of(job: Job) -> JobStatus:
    """Return the status that a store shows; it does not show whether a job is claimable."""
    fields = {name: getattr(job, name) for name in JobStatus._fields if name != "claimable"}
    return JobStatus(claimable=False, **fields)


async def check_rule(store: Store, case: RuleCase) -> None:
    """Run jobs through a store, and compare every status and event with the pure rules."""
    await store.workers.register_worker(worker_info(WORKER))
    jobs = {job.id: job for job in (new_job(terms=case.terms) for _ in range(case.jobs))}
    await store.jobs.submit_batch(list(jobs.values()), NOW)
    expected = {job_id: _Expected(job) for job_id, job in jobs.items()}
    await _compare(store, expected)
    for round_ in range(2):  # a job that is queued again is claimed a second time
        now = NOW + CLAIM_MS + round_ * RECLAIM_MS
        claims = (await store.workers.claim(WORKER, ["mail"], 100, now)).claims
        for claim in claims:
            expected[claim.lease.job_id].claim(now)
        await _compare(store, expected)
        now += SETTLE_MS
        settlements = [Settlement(claim.lease, case.outcome) for claim in claims]
        assert await store.workers.settle(settlements, now) == [True] * len(claims)
        for claim in claims:
            expected[claim.lease.job_id].settle(case.outcome, now)
        await _compare(store, expected)


class _Expected:
    """A job as the pure rules see it."""

    def __init__(self, job: JobInsert) -> None:
        self.terms = job.terms
        self.status, event = rules.created(job.run_at, NOW)
        self.events = [event]

    def claim(self, now: int) -> None:
        self._apply(rules.claimed(self.status, WORKER, now))

    def settle(self, outcome: Outcome, now: int) -> None:
        self._apply(rules.settled(self.status, self.terms, outcome, now))

    def _apply(self, transition: rules.Transition) -> None:
        self.status = transition.status
        self.events.append(transition.event)


async def _compare(store: Store, expected: dict[str, _Expected]) -> None:
    for job_id, each in expected.items():
        job = await store.jobs.get(TENANT, job_id)
        assert status_of(job) == each.status._replace(claimable=False)
        events = await store.jobs.list_events(TENANT, job_id, 0, 100)
        told = [json.loads(event.data) for event in events if event.type is EventType.STATE]
        assert told == [json.loads(event) for event in each.events]
