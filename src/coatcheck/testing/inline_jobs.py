"""In-memory jobs of an inline run, executed one after another on a clock that jumps.

Transitions follow the same rules as in every store (`coatcheck.model.transition`). Requests of
handlers are answered as a worker answers them (`coatcheck.worker.steps.requests`).
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from coatcheck.blobs.blobs import pieces_of
from coatcheck.engine.submit.submission import Submission, prepare_with_uploads
from coatcheck.errors import CoatcheckError, NotFound
from coatcheck.ids import UlidGenerator
from coatcheck.model import transition as rules
from coatcheck.model.artifact import Artifact
from coatcheck.model.confinement import ServedJob
from coatcheck.model.handler import is_async
from coatcheck.model.job import Claim, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Outcome, Succeeded, Waiting
from coatcheck.model.state import State
from coatcheck.model.step import SentEvent, Step, child_finished
from coatcheck.model.transition import NEVER, JobStatus
from coatcheck.store.base import Report
from coatcheck.testing.inline_crash import CrashPoint, InlineContext
from coatcheck.worker.attempts.attempt import run_async, run_blocking
from coatcheck.worker.steps.effects import (
    AcquireResource,
    ChildStatus,
    FetchUpload,
    KeepArtifact,
    ReadChildren,
    ReadHistory,
    ReadInput,
    ReadPayload,
    RecordSteps,
    Serve,
    SpawnJob,
    WorkerRequest,
)
from coatcheck.worker.steps.step_runner import HandlerRequests


class FakeClock:
    """A clock that stands still until it is set."""

    def __init__(self, at: int = 1_700_000_000_000) -> None:
        self.at = at

    def now(self) -> int:
        """Return the set time in milliseconds since the epoch."""
        return self.at

    def monotonic(self) -> float:
        """Return the set time in seconds."""
        return self.at / 1000


@dataclass(slots=True)
class InlineJob:
    """A job with everything recorded about it."""

    new: JobInsert
    status: JobStatus
    steps: dict[int, Step] = field(default_factory=dict)
    messages: list[SentEvent] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    groups: list[set[str]] = field(default_factory=list)  # conditions of its wait
    children: list[InlineJob] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    result: str | None = None
    claims: int = 0
    crashes: int = 0

    def wrote(self, report: Report) -> None:
        """Record a report of the handler."""
        self.reports.append(report)
        self.steps.update({step.seq: step for step in report.steps})


class InlineJobs:
    """A job and all of its descendants."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        clock: FakeClock,
        uploads: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self._kinds = kinds
        self._uploads = uploads
        self._clock = clock
        self._new_id = UlidGenerator(clock)
        self._jobs: dict[str, InlineJob] = {}
        self._waiting: dict[str, InlineJob] = {}  # for a condition, not only for a time
        self._later: list[tuple[int, str]] = []  # (due time, job id), earliest first

    def submit(self, asked: Submission, parent: str | None = None) -> InlineJob:
        """Submit a job; raise an error if it does not fit its kind."""
        new, _ = prepare_with_uploads(asked, self._kinds, self._new_id(), self._clock.now())
        new = new._replace(terms=new.terms._replace(parent=parent))
        job = InlineJob(new, rules.created(new.run_at, self._clock.now()).status)
        self._jobs[new.id] = job
        self._move(job, job.status)
        return job

    def run_all(self, point_of: Callable[[InlineJob], CrashPoint]) -> None:
        """Run all jobs until each has finished or waits for something that never happens."""
        while (job := self._next()) is not None:
            self._move(job, rules.claimed(job.status, "inline", self._clock.now()).status)
            job.claims += 1
            self._attempt(job, point_of(job))

    def _next(self) -> InlineJob | None:
        while self._later:
            at, job_id = heapq.heappop(self._later)
            job = self._jobs[job_id]
            if job.status.run_at != at or job.status.state.is_terminal:
                continue  # it has moved since
            self._clock.at = max(self._clock.at, at)
            self._wake(job)
            return job
        return None

    def _move(self, job: InlineJob, status: JobStatus) -> None:
        job.status = status
        if status.state in (State.QUEUED, State.WAITING) and status.run_at != NEVER:
            heapq.heappush(self._later, (status.run_at, job.new.id))
        elif status.state.is_terminal:
            self._has_ended(job)

    def _wake(self, job: InlineJob) -> None:
        woken = rules.woken(job.status, job.new.terms, self._clock.now())
        if woken is not None:
            self._waiting.pop(job.new.id, None)
            self._move(job, woken.status)

    def _has_ended(self, ended: InlineJob) -> None:
        for job in list(self._waiting.values()):
            for group in job.groups:
                group.discard(child_finished(ended.new.id))
            self._wake_if_all_is_there(job)

    def _wake_if_all_is_there(self, job: InlineJob) -> None:
        if any(not group for group in job.groups):
            self._wake(job)

    # --- an attempt

    def _attempt(self, job: InlineJob, point: CrashPoint) -> None:
        kind, claim = self._kinds[job.new.kind], _claim(job)
        blocking = not is_async(kind.handler)

        def collect() -> None:
            report = context.take_report()
            if report is not None:
                job.wrote(report)

        context = InlineContext(
            claim,
            kind,
            blocking=blocking,
            requests=_InlineRequests(self, job, point, collect),
            clock=self._clock,
            point=point,
        )
        if blocking:
            outcome = run_blocking(kind, context, claim)
        else:
            with ThreadPoolExecutor(1) as apart:  # the test may run in an event loop
                outcome = apart.submit(asyncio.run, run_async(kind, context, claim)).result()
        if not point.crashed:
            collect()
            for artifact, content in context.take_files():
                job.artifacts[artifact.name] = b64decode(content)
            self._settle(job, outcome)
            return
        job.crashes += 1
        gone = rules.lost(job.status, job.new.terms, self._clock.now())
        assert gone is not None, "it was running"
        self._move(job, gone.status)

    def _settle(self, job: InlineJob, outcome: Outcome) -> None:
        if isinstance(outcome, Succeeded):
            job.result = outcome.result
        ended = rules.settled(job.status, job.new.terms, outcome, self._clock.now())
        self._move(job, ended.status)
        if isinstance(outcome, Waiting):
            # No other job has run since the handler looked, so nothing new has arrived.
            job.groups = [set(group) for group in outcome.groups]
            self._waiting[job.new.id] = job

    # --- requests of handlers

    def child(self, job_id: str) -> ChildStatus:
        """Return a job's state, result and error."""
        job = self._jobs[job_id]
        return ChildStatus(job.status.state, job.result, job.status.error)

    def upload(self, upload_id: str) -> Path:
        """Return the path of an upload."""
        if upload_id not in self._uploads:
            raise NotFound(f"run_inline was not given upload {upload_id}; say uploads={{id: path}}")
        return self._uploads[upload_id]

    def serve(self, job: InlineJob, name: str, body: bytes) -> bytes:
        """Call the service of the job's kind, on an event loop of its own."""
        confinement = self._kinds[job.new.kind].confinement
        if confinement is None or confinement.service is None:
            raise NotFound(f"kind {job.new.kind!r} has no service")
        asked = ServedJob(job.new.tenant, job.new.id, job.new.input)
        answer = confinement.service(asked, name, body)
        with ThreadPoolExecutor(1) as apart:
            return apart.submit(asyncio.run, _awaited(answer)).result()

    def keep(self, job: InlineJob, name: str, content: bytes, content_type: str) -> Artifact:
        """Store an artifact of a job."""
        job.artifacts[name] = content
        digest = hashlib.sha256(content).hexdigest()
        return Artifact(name, content_type, len(content), digest, "", self._clock.now())


class _InlineRequests(HandlerRequests):
    """Handler requests that are performed immediately, in memory."""

    def __init__(
        self, jobs: InlineJobs, job: InlineJob, point: CrashPoint, collect: Callable[[], None]
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._point = point
        self._collect = collect

    def send(self, request: WorkerRequest) -> Future[Any]:
        self._point.check()
        future: Future[Any] = Future()
        try:
            future.set_result(self._perform(request))
        except CoatcheckError as error:
            future.set_exception(error)
        return future

    def report_soon(self) -> None:
        number = self._point.begin_call()
        self._collect()
        self._point.end_call(number)

    def _perform(self, request: WorkerRequest) -> Any:  # noqa: C901 - one case per request
        match request:
            case ReadHistory():
                steps = [self._job.steps[seq] for seq in sorted(self._job.steps)]
                return steps, list(self._job.messages)
            case ReadChildren(ids):
                return [self._jobs.child(job_id) for job_id in ids]
            case RecordSteps(steps):
                self._write(steps)
                return None
            case SpawnJob(step, kind, input_, steps):
                self._point.before_write(step)
                child = self._jobs.submit(Submission(kind, input_), self._job.new.id)
                self._job.children.append(child)
                self._write((*steps, replace(step, result=json.dumps(child.new.id))))
                return child.new.id
            case KeepArtifact(name, data, content_type):
                return self._jobs.keep(self._job, name, b"".join(pieces_of(data)), content_type)
            case ReadInput():
                return self._job.new.input
            case FetchUpload(upload_id):
                return self._jobs.upload(upload_id)
            case ReadPayload(reference):
                return reference  # payloads are never offloaded here
            case AcquireResource(_, names):
                return next(iter(names), None)  # no other job runs

            case Serve(name, body):
                return self._jobs.serve(self._job, name, body)

    def _write(self, steps: tuple[Step, ...]) -> None:
        self._point.before_write(steps[-1])
        self._collect()
        self._job.wrote(Report(steps=steps))


async def _awaited(answer: Awaitable[bytes]) -> bytes:
    return await answer


def _claim(job: InlineJob) -> Claim:
    new, status = job.new, job.status
    return Claim(
        lease=Lease(new.tenant, new.id, status.fence),
        kind=new.kind,
        surface=new.surface,
        queue=new.queue,
        input=new.input,
        attempt=status.attempt,
        terms=new.terms,
        run_at=status.run_at,
        correlation_id=None,
        traceparent=None,
    )
