"""Histories made by hand: each move by the rules of the model, so that a good one is good."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import Failure, Job, Terms
from coatcheck.model.outcome import Errored, Outcome, Released, Succeeded
from coatcheck.model.transition import (
    JobStatus,
    Transition,
    claimed,
    created,
    expired,
    lost,
    request_cancel,
    settled,
    woken,
)
from coatcheck.testing.checker import (
    BEGAN,
    RAN,
    RETURNED,
    Bounds,
    Effect,
    JobRecord,
    Orphan,
    RunRecord,
    Submit,
)

NOW = 1_700_000_000_000
BOOM = Failure("boom", "it went wrong")
WORKER = "worker-1"


class History:
    """One job's life, told move by move."""

    def __init__(self, job_id: str, terms: Terms | None = None) -> None:
        self.id = job_id
        self.terms = terms or Terms()
        self.now = NOW
        self.result: str | None = None
        self.effects: list[Effect] = []
        self.orphans: list[Orphan] = []
        first = created(NOW, NOW)
        self.status: JobStatus = first.status
        self.events = [JobEvent(1, EventType.STATE, NOW, first.event)]

    def _apply(self, transition: Transition | None) -> History:
        assert transition is not None
        self.status = transition.status
        self.events.append(
            JobEvent(self.status.last_event, EventType.STATE, self.now, transition.event)
        )
        return self

    def _effect(self, what: str, value: str = "") -> None:
        status, at = self.status, 1000 * len(self.effects)
        self.effects.append(Effect(self.id, status.attempt, status.fence, 4711, what, at, value))

    def claim(self) -> History:
        self.now += 10
        self._apply(claimed(self.status, WORKER, self.now))
        self._effect(BEGAN)
        return self

    def say(self) -> History:
        last = self.status.last_event + 1
        self.status = self.status._replace(last_event=last)
        data = json.dumps({"message": "working", "fence": self.status.fence})
        self.events.append(JobEvent(last, EventType.LOG, self.now, data))
        return self

    def enter(self, label: str) -> History:
        """Enter the body of a step."""
        self._effect(RAN, label)
        return self

    def commit(
        self, name: str, *, op: str = "step", occurrence: int = 0, attempts: int = 1
    ) -> History:
        """Write a step down as done."""
        last = self.status.last_event + 1
        self.status = self.status._replace(last_event=last)
        told = {"seq": last, "op": op, "name": name, "key": None, "occurrence": occurrence}
        data = json.dumps({**told, "state": "succeeded", "attempts": attempts})
        self.events.append(JobEvent(last, EventType.STEP, self.now, data))
        return self

    def wake(self) -> History:
        return self._apply(woken(self.status, self.terms, self.now))

    def settle(self, outcome: Outcome) -> History:
        self.now += 10
        return self._apply(settled(self.status, self.terms, outcome, self.now))

    def succeed(self) -> History:
        self.result = json.dumps({"fence": self.status.fence})
        self._effect(RETURNED, self.result)
        return self.settle(Succeeded(self.result))

    def retry(self) -> History:
        return self.settle(Errored(BOOM, 0))

    def release(self) -> History:
        return self.settle(Released())

    def lose(self, after_ms: int = 1_000) -> History:
        self.orphans.append(Orphan(self.id, self.status.fence, self.now))
        self.now += after_ms
        return self._apply(lost(self.status, self.terms, self.now))

    def cancel(self) -> History:
        return self._apply(request_cancel(self.status, self.terms, self.now))

    def expire(self) -> History:
        return self._apply(expired(self.status, self.terms, self.now))

    @property
    def job(self) -> Job:
        """The row as a store would show it."""
        changes = self.status._asdict()
        del changes["claimable"]
        return Job(
            tenant="default",
            id=self.id,
            surface="api",
            public_id=self.id,
            kind="mail",
            queue="default",
            priority=0,
            terms=self.terms,
            created_at=NOW,
            progress=None,
            result=self.result,
            limit_key=None,
            correlation_id=None,
            traceparent=None,
            **changes,
        )

    @property
    def record(self) -> JobRecord:
        return JobRecord("default", self.id, self.job, False, tuple(self.events))


def eventful() -> list[History]:
    """Jobs that went through everything there is."""
    return [
        History("A").claim().say().succeed(),
        History("B").claim().retry().claim().say().lose().claim().succeed(),
        History("C").claim().release().claim().release().claim().succeed(),
        History("D", Terms(max_attempts=1)).claim().lose(),
        History("E").cancel(),
        History("F").claim().cancel().retry(),
        History("G", Terms(deadline_at=NOW)).expire(),
        History("H").claim().lose().claim().cancel().lose(),
    ]


def run_of(*histories: History, **fields: object) -> RunRecord:
    run = RunRecord(
        submits=[Submit(history.id) for history in histories],
        records=[history.record for history in histories],
        effects=[effect for history in histories for effect in history.effects],
        orphans=[orphan for history in histories for orphan in history.orphans],
        bounds=Bounds(lease_s=1, sweep_s=0.2),
    )
    return dataclasses.replace(run, **fields)  # type: ignore[arg-type]  # named fields of a Run


def with_record(run: RunRecord, job_id: str, change: Callable[[JobRecord], JobRecord]) -> RunRecord:
    """Return the same run with one job told differently."""
    records = [change(record) if record.id == job_id else record for record in run.records]
    return dataclasses.replace(run, records=records)


def with_job(run: RunRecord, job_id: str, **fields: object) -> RunRecord:
    """Return the same run with one row that differs."""

    def change(record: JobRecord) -> JobRecord:
        assert record.job is not None
        job = dataclasses.replace(record.job, **fields)  # type: ignore[arg-type]  # of a Job
        return dataclasses.replace(record, job=job)

    return with_record(run, job_id, change)


def with_events(
    run: RunRecord,
    job_id: str,
    change: Callable[[list[JobEvent]], list[JobEvent]],
    *,
    renumber: bool = False,
) -> RunRecord:
    """Return the same run with one log that differs."""

    def changed(record: JobRecord) -> JobRecord:
        events = change(list(record.events))
        if renumber:
            events = [dataclasses.replace(e, seq=n) for n, e in enumerate(events, 1)]
        return dataclasses.replace(record, events=tuple(events))

    return with_record(run, job_id, changed)
