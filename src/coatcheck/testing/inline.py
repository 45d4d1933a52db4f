"""Running a job inline, in a test of yours: no server, no store, no waiting.

    run = run_inline(app, "bill", {"customer": "ada"}, crash={1: 2})
    assert run.state == "succeeded"
    assert run.attempts == 2

Attempts, retries and lost workers follow the rules of the real thing (`model.transition`), on a
clock that jumps to the next attempt instead of waiting for it. `crash={1: 2}` ends attempt 1 at its
second call of `ctx`, as the death of its worker would: the handler sees no exception that it could
handle, and the job is run again. What a handler did before its crash has happened.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from coatcheck.app import App
from coatcheck.engine.submission import Submission, prepare
from coatcheck.ids import UlidGenerator
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import EventType
from coatcheck.model.job import Claim, Failure, Lease, NewJob, Progress
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Succeeded
from coatcheck.model.state import Reason, State
from coatcheck.model.transition import Standing, Transition, claimed, created, lost, settled
from coatcheck.worker.attempt import run_async, run_blocking
from coatcheck.worker.context import Context
from coatcheck.worker.outside import Data

START = 1_700_000_000_000


class Crash(BaseException):
    """Ends an attempt where a test wants its worker to die; no `except Exception` catches it."""


class FakeClock:
    """A clock that stands still until it is set."""

    def __init__(self, at: int = START) -> None:
        self.at = at

    def now(self) -> int:
        """Return the time it was set to, in milliseconds since the epoch."""
        return self.at

    def monotonic(self) -> float:
        """Return the same in seconds."""
        return self.at / 1000


@dataclass(slots=True)
class InlineRun:
    """What became of a job, and all that it said of itself on the way."""

    job_id: str
    state: State = State.QUEUED
    reason: Reason | None = None
    result: Any = None
    error: Failure | None = None
    attempts: int = 0
    crashes: int = 0
    progress: list[Progress] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)


def run_inline(
    app: App,
    kind: str,
    input: Any = None,  # noqa: A002 - the name the contract gives it
    *,
    crash: Mapping[int, int] | None = None,
    max_attempts: int | None = None,
    clock: FakeClock | None = None,
) -> InlineRun:
    """Run a job from its first attempt to its end and return what became of it.

    `crash` says at which call of `ctx` an attempt's worker dies: {attempt: call}, both from 1.
    The input is checked and the result read as the server would.
    """
    clock = clock or FakeClock()
    asked = Submission(kind, to_json(input).decode(), max_attempts=max_attempts)
    job = prepare(asked, app.kinds, UlidGenerator(clock)(), clock.now())
    run = InlineRun(job.id)
    standing = created(job.run_at, clock.now()).standing
    while not standing.state.is_terminal:
        clock.at = max(clock.at, standing.run_at)
        standing = claimed(standing, "inline", clock.now()).standing
        run.attempts = standing.attempt
        call = (crash or {}).get(standing.attempt)
        standing = _attempt(run, app.kinds[kind], job, standing, call, clock.now()).standing
    run.state, run.reason, run.error = standing.state, standing.reason, standing.error
    return run


def _attempt(
    run: InlineRun, kind: Kind, job: NewJob, standing: Standing, call: int | None, now: int
) -> Transition:
    claim = Claim(
        lease=Lease(job.tenant, job.id, standing.fence),
        kind=job.kind,
        surface=job.surface,
        queue=job.queue,
        input=job.input,
        attempt=standing.attempt,
        terms=job.terms,
        run_at=standing.run_at,
        correlation_id=None,
        traceparent=None,
    )
    calls, crashed = 0, False

    def listen() -> None:
        nonlocal calls, crashed
        calls += 1
        _collect(run, context)
        if calls == call:
            crashed = True
        if crashed:
            raise Crash(f"attempt {claim.attempt} ends at its call {calls} of ctx")

    blocking = kind.isolation != "async"
    context = Context(claim, blocking=blocking, on_report=listen, outside=_Collected(run))
    if blocking:
        outcome = run_blocking(kind, context, claim)
    else:
        with ThreadPoolExecutor(1) as apart:  # the test may be on a loop of its own
            outcome = apart.submit(asyncio.run, run_async(kind, context, claim)).result()
    if crashed:
        run.crashes += 1
        transition = lost(standing, job.terms, now)
        assert transition is not None, "it was running"
        return transition
    if isinstance(outcome, Succeeded):
        run.result = json.loads(outcome.result)
    return settled(standing, job.terms, outcome, now)


class _Collected:
    """Collects the files that a job leaves behind."""

    def __init__(self, run: InlineRun) -> None:
        self._run = run

    def read_input(self, claim: Claim) -> Future[str]:
        raise AssertionError("an inline job has its input with it")

    def keep_artifact(
        self, claim: Claim, name: str, data: Data, content_type: str
    ) -> Future[Artifact]:
        if isinstance(data, Path):
            content = data.read_bytes()
        elif isinstance(data, (bytes, bytearray, memoryview)):
            content = bytes(data)
        else:
            content = data.read()
        self._run.artifacts[name] = content
        sha256 = hashlib.sha256(content).hexdigest()
        kept: Future[Artifact] = Future()
        kept.set_result(Artifact(name, content_type, len(content), sha256, "", claim.run_at))
        return kept


def _collect(run: InlineRun, context: Context) -> None:
    report = context.take_report()
    if report is None:
        return
    if report.progress is not None:
        run.progress.append(report.progress)
    if report.phase is not None:
        run.phases.append(report.phase)
    run.logs += [json.loads(e.data) for e in report.events if e.type is EventType.LOG]
