"""Inline runs of jobs in tests: no server, no store, no waiting.

    run = run_inline(app, "bill", {"customer": "ada"}, crash={1: "charge"})
    assert run.state == "succeeded"
    assert run.attempts == 2

Attempts, steps, retries and lost workers follow the same rules as in production, on a clock that
jumps instead of waiting. Jobs that a job spawns also run inline, one after another. A job that
waits for an event that was never sent is left `waiting`.

`crash` says when a worker dies:

- `{1: 2}`: in the first claim, at the end of its second `ctx` call. If that call runs a step, the
  step is recorded. If it waits, the wait is not recorded.
- `{1: "charge"}`: after the step of that name has run and before it is recorded. `"charge#1"` or
  `"charge/ada"`, as at the end of `ctx.step_key`, selects one of several steps.

The side effects of a handler before the crash have happened. Each call of a handler is a claim; a
call after a wait is a new claim, but not a new attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from coatcheck.app import App
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.event import EventType
from coatcheck.model.job import Failure, Progress
from coatcheck.model.state import Reason, State
from coatcheck.model.step import SentEvent, Step
from coatcheck.testing.inline_crash import Crash, CrashPoint
from coatcheck.testing.inline_jobs import FakeClock, InlineJob, InlineJobs

__all__ = ["Crash", "FakeClock", "InlineRun", "run_inline"]


@dataclass(slots=True)
class InlineRun:
    """The outcome of an inline job, with its reports, recorded steps and artifacts."""

    job_id: str
    kind: str
    state: State
    reason: Reason | None
    result: Any
    error: Failure | None
    attempts: int
    claims: int
    crashes: int
    steps: list[Step]
    children: list[InlineRun]
    progress: list[Progress] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)


def run_inline(
    app: App,
    kind: str,
    input: Any = None,  # noqa: A002 - the name the contract gives it
    *,
    crash: Mapping[int, int | str] | None = None,
    events: Mapping[str, Sequence[Any]] | None = None,
    max_attempts: int | None = None,
    clock: FakeClock | None = None,
    uploads: Mapping[str, Path] | None = None,
) -> InlineRun:
    """Run a job from its first attempt to its end and return the outcome.

    `crash` says in which claim, counted from 1, and where its worker dies. `events` are the events
    sent to the job, by name. `uploads` are the paths of the files of its input, by id. The input is
    validated and the result is decoded as on the server.
    """
    clock = clock or FakeClock()
    jobs = InlineJobs(app.kinds, clock, uploads or {})
    job = jobs.submit(Submission(kind, to_json(input).decode(), max_attempts=max_attempts))
    job.messages = [
        SentEvent(name, number, to_json(data).decode(), clock.now())
        for name, sent in (events or {}).items()
        for number, data in enumerate(sent)
    ]
    points = crash or {}
    jobs.run_all(lambda each: CrashPoint(points.get(each.claims) if each is job else None))
    return _run_of(job)


def _run_of(job: InlineJob) -> InlineRun:
    status = job.status
    run = InlineRun(
        job_id=job.new.id,
        kind=job.new.kind,
        state=status.state,
        reason=status.reason,
        result=None if job.result is None else json.loads(job.result),
        error=status.error,
        attempts=status.attempt,
        claims=job.claims,
        crashes=job.crashes,
        steps=[job.steps[seq] for seq in sorted(job.steps)],
        children=[_run_of(child) for child in job.children],
        artifacts=dict(job.artifacts),
    )
    for report in job.reports:
        if report.progress is not None:
            run.progress.append(report.progress)
        over = [json.loads(e.data) for e in report.events if e.type is EventType.PROGRESS]
        run.phases += [each["phase"] for each in over]
        if report.phase is not None:
            run.phases.append(report.phase)
        run.logs += [json.loads(e.data) for e in report.events if e.type is EventType.LOG]
        run.outputs += [json.loads(e.data) for e in report.events if e.type is EventType.OUTPUT]
    return run
