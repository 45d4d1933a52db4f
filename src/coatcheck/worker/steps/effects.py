"""Durable operations of a handler, as generators that yield effects and are sent their results.

A generator decides what happens and does no I/O, so handlers on a loop and in a thread share it.
`worker/steps/step_runner.py` has a runner for each, which performs the effects. The head of
`journal.py` states what is recorded, and why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from coatcheck.blobs.blobs import Data
from coatcheck.errors import Fail, JobCancelled, JobFailed, Retry, StepFailed
from coatcheck.model.job import Failure
from coatcheck.model.kind import Backoff
from coatcheck.model.payload import fits_inline, is_reference
from coatcheck.model.state import State
from coatcheck.model.step import Step, StepState, child_finished, event_sent
from coatcheck.worker.attempts.failure import make_failure
from coatcheck.worker.steps.journal import Journal, JournalEntry
from coatcheck.worker.steps.step_function import StepFunction


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Return the job's steps and the events sent to it."""


@dataclass(frozen=True, slots=True)
class RecordSteps:
    """Write these steps."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class SpawnJob:
    """Submit a job and write the step whose result is its id, in one transaction; return the id."""

    step: Step
    kind: str
    input: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadChildren:
    """Return the status of these jobs."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """A child job's state, its result as JSON text, and its error. All None if it was deleted."""

    state: State | None
    result: str | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class ReadInput:
    """Return the job's offloaded input, as JSON text."""


@dataclass(frozen=True, slots=True)
class ReadPayload:
    """Return an offloaded payload of the job's history, as JSON text."""

    reference: str


@dataclass(frozen=True, slots=True)
class KeepArtifact:
    """Store an artifact of the job, and return its description."""

    name: str
    data: Data
    content_type: str


@dataclass(frozen=True, slots=True)
class FetchUpload:
    """Download an upload of the job to this machine, and return its path."""

    upload_id: str


@dataclass(frozen=True, slots=True)
class AcquireResource:
    """Acquire the first of these resources that no other job holds, until the attempt ends."""

    group: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Serve:
    """Call the kind's service (model/confinement.py), and return its response as bytes."""

    name: str
    body: bytes


# Effects that the worker performs.
WorkerRequest = (
    ReadHistory
    | RecordSteps
    | SpawnJob
    | ReadChildren
    | ReadInput
    | ReadPayload
    | KeepArtifact
    | FetchUpload
    | AcquireResource
    | Serve
)


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run the function of a step. Performed by the step runner.

    If `fatal`, a timeout fails the job. If the step runner cannot stop the function, the worker
    kills its process.
    """

    function: StepFunction
    timeout: float | None
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Suspend:
    """Wait until a time, or until all signals of the group have come. Performed by the step runner.

    When it returns, either the time has passed or the condition is worth checking again.
    """

    until: int | None
    group: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildJob:
    """A job that a handler has spawned: the argument of `ctx.gather`."""

    job_id: str
    kind: str


# The error code of a job whose step exceeded its timeout.
STEP_TIMEOUT = "step-timeout"


def step_timeout_message(step: str, seconds: float) -> str:
    """Return the error message of a job whose step exceeded its timeout."""
    return f"step {step!r} took longer than {seconds:g} s"


_DELETED = "gone"  # the code of a child job that no longer exists
# A step that took longer is recorded at once, even with `wait=False`.
QUICK_MS = 50

Effect = WorkerRequest | RunStep | Suspend
Effects = Generator[Effect, Any, Any]
Now = Callable[[], int]


def send_request(request: WorkerRequest) -> Effects:
    """Send a request to the worker, and return the response. Nothing is recorded."""
    return (yield request)


def call_locally(do: Callable[[], Any]) -> Effects:
    """Call a function without any effect."""
    yield from ()
    return do()


def complete_entry(journal: Journal, entry: JournalEntry, effects: Effects) -> Effects:
    """Perform effects, and mark the journal entry complete however they end."""
    try:
        return (yield from effects)
    finally:
        journal.complete(entry)


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """The retries and the timeout of a step."""

    retries: int
    timeout: float | None
    backoff: Backoff
    record_soon: Callable[[], None] | None = None  # None: wait until the result is recorded
    fatal: bool = False  # a timeout fails the job


def run_step(
    journal: Journal, entry: JournalEntry, now: Now, function: StepFunction, policy: StepPolicy
) -> Effects:
    """Run a function, and record its result."""
    step = entry.recorded
    attempts = 0
    if step is not None:
        if step.state is StepState.SUCCEEDED:
            return _read(journal, entry, function, (yield from _load(step.result or "null")))
        if step.state is StepState.FAILED and step.survived:
            raise _failed(entry, step)
        if step.state is StepState.WAITING:  # it waits for its next attempt
            attempts = step.attempts
            yield Suspend(step.wake_at)
    if journal.has_unwritten_failure:  # otherwise a crash in the function would hide it
        yield RecordSteps(journal.take_unwritten())
    while True:
        started_at = now()
        attempts += 1
        try:
            result = function.write((yield RunStep(function, policy.timeout, policy.fatal)))
            value = function.read(result)  # a result that cannot be read must not be recorded
        except (Fail, Retry):
            raise  # these decide about the job, not about the step
        except Exception as error:
            step = Step(
                entry.seq,
                entry.id,
                StepState.FAILED,
                started_at,
                attempts=attempts,
                error=make_failure(error),
                overlapped=entry.overlapped,
            )
            if attempts <= policy.retries:
                until = now() + policy.backoff.delay(attempts)
                journal.record_later(replace(step, state=StepState.WAITING, wake_at=until))
                yield Suspend(until)
                continue
            step = replace(step, finished_at=now())
            yield RecordSteps((*journal.take_unwritten(), step))
            journal.record_failure(entry, step)
            raise _failed(entry, step) from error
        step = Step(
            entry.seq,
            entry.id,
            StepState.SUCCEEDED,
            started_at,
            finished_at=now(),
            attempts=attempts,
            result=result,
            overlapped=entry.overlapped,
        )
        yield from _record(journal, step, policy)
        return value


def _record(journal: Journal, step: Step, policy: StepPolicy) -> Effects:
    """Record a step: now, or soon if the policy allows it."""
    took_ms = (step.finished_at or step.started_at) - step.started_at
    if policy.record_soon is not None and took_ms < QUICK_MS and fits_inline(step.result or ""):
        journal.record_later(step)
        policy.record_soon()
    else:
        yield RecordSteps((*journal.take_unwritten(), step))
        journal.record(step)


def _read(journal: Journal, entry: JournalEntry, function: StepFunction, text: str) -> Any:
    try:
        return function.read(text)
    except ValidationError as error:
        raise journal.reject_changed(
            f"the recorded result of {entry.id} does not match the type that the code now returns:"
            f" {error.errors(include_url=False, include_input=False)[0]['msg']}"
        ) from error


def _load(text: str) -> Effects:
    """Return a recorded payload, from the blob store if it was offloaded."""
    return (yield ReadPayload(text)) if is_reference(text) else text


def _failed(entry: JournalEntry, step: Step) -> StepFailed:
    error = step.error or Failure("error", "the step failed")
    return StepFailed(entry.id.name, error.code, error.message)


def sleep(journal: Journal, entry: JournalEntry, now: Now, milliseconds: int) -> Effects:
    """Wait for a time."""
    step = entry.recorded
    if step is not None and step.state is StepState.SUCCEEDED:
        return
    if step is None or step.wake_at is None:
        began = now()
        step = Step(entry.seq, entry.id, StepState.WAITING, began, wake_at=began + milliseconds)
        journal.record_later(replace(step, overlapped=entry.overlapped))
    while step.wake_at is not None and now() < step.wake_at:
        yield Suspend(step.wake_at)
    journal.record_later(
        replace(
            step,
            state=StepState.SUCCEEDED,
            finished_at=max(now(), step.wake_at or 0),
            overlapped=entry.overlapped,
        )
    )


def wait_for(journal: Journal, entry: JournalEntry, now: Now, milliseconds: int | None) -> Effects:
    """Wait for an event, and return its data."""
    step = entry.recorded
    if step is not None and step.state is StepState.SUCCEEDED:
        return json.loads((yield from _load(step.result or "null")))
    if step is not None and step.state is StepState.FAILED:
        raise TimeoutError(_timeout_message(entry))
    if step is None:
        began = now()
        until = None if milliseconds is None else began + milliseconds
        step = Step(entry.seq, entry.id, StepState.WAITING, began, wake_at=until)
        journal.record_later(replace(step, overlapped=entry.overlapped))
    if journal.event(entry) is None:
        _, events = yield ReadHistory()
        journal.load_events(events)
    while (event := journal.event(entry)) is None:
        if step.wake_at is not None and now() >= step.wake_at:
            late = Failure("timeout", _timeout_message(entry))
            failed = replace(step, state=StepState.FAILED, finished_at=now(), error=late)
            failed = replace(failed, survived=True, overlapped=entry.overlapped)
            yield RecordSteps((*journal.take_unwritten(), failed))
            journal.return_event(entry)
            raise TimeoutError(late.message)
        yield Suspend(step.wake_at, (event_sent(entry.id.name, entry.event),))
        _, events = yield ReadHistory()
        journal.load_events(events)
    data = json.loads((yield from _load(event.data)))
    journal.record_later(
        replace(
            step,
            state=StepState.SUCCEEDED,
            finished_at=now(),
            result=event.data,
            overlapped=entry.overlapped,
        )
    )
    return data


def _timeout_message(entry: JournalEntry) -> str:
    return f"no event {entry.id.name!r} arrived in time"


def spawn(journal: Journal, entry: JournalEntry, now: Now, kind: str, input_: str) -> Effects:
    """Submit a child job, once."""
    step = entry.recorded
    if step is None:
        began = now()
        step = Step(entry.seq, entry.id, StepState.SUCCEEDED, began, finished_at=began)
        step = replace(step, overlapped=entry.overlapped)
        job_id = yield SpawnJob(step, kind, input_, journal.take_unwritten())
        journal.record(replace(step, result=json.dumps(job_id)))
        return ChildJob(job_id, kind)
    return ChildJob(json.loads(step.result or "null"), kind)


def gather(journal: Journal, entry: JournalEntry, now: Now, handles: Sequence[ChildJob]) -> Effects:
    """Wait until child jobs have finished, and return their results in order."""
    step = entry.recorded
    if step is not None and step.state is StepState.SUCCEEDED:
        return _read_results(journal, entry, handles, (yield from _load(step.result or "[]")))
    if step is not None and step.state is StepState.FAILED:
        if step.survived:
            raise _error_of(step)
        step = None  # the child may have been resumed since
    if step is None:
        step = Step(entry.seq, entry.id, StepState.WAITING, now())
        journal.record_later(replace(step, overlapped=entry.overlapped))
    ids = tuple(handle.job_id for handle in handles)
    while True:
        children: list[ChildStatus] = yield ReadChildren(ids)
        unfinished = [
            child_finished(job_id)
            for job_id, child in zip(ids, children, strict=True)
            if child.state is not None and not child.state.is_terminal
        ]
        if not unfinished:
            break
        yield Suspend(None, tuple(dict.fromkeys(unfinished)))
    done = replace(step, finished_at=now(), overlapped=entry.overlapped)
    for handle, child in zip(handles, children, strict=True):
        if child.state is not State.SUCCEEDED:
            failed = _failed_gather(done, handle, child)
            journal.record_later(failed)
            journal.record_failure(entry, failed)
            raise _error_of(failed)
    result = f"[{','.join(child.result or 'null' for child in children)}]"
    done = replace(done, state=StepState.SUCCEEDED, result=result)
    yield RecordSteps((*journal.take_unwritten(), done))
    journal.record(done)
    return json.loads(result)


def _read_results(
    journal: Journal, entry: JournalEntry, handles: Sequence[ChildJob], text: str
) -> Any:
    results = json.loads(text)
    if len(results) != len(handles):
        raise journal.reject_changed(
            f"{entry.id} has the recorded results of {len(results)} job(s), but the code now"
            f" gathers {len(handles)}"
        )
    return results


def _failed_gather(step: Step, handle: ChildJob, child: ChildStatus) -> Step:
    """Return the step of a `gather` in which a child did not succeed: which child, and why."""
    match child.state:
        case State.CANCELLED:
            message = f"job {handle.job_id} ({handle.kind}) was cancelled"
            error = Failure(JobCancelled.code, message)
        case None:
            error = Failure(_DELETED, "the job was deleted, or its retention has passed")
        case _:
            error = child.error or Failure("unknown", "the job failed")
    child_info = json.dumps({"job": handle.job_id, "state": child.state or _DELETED})
    return replace(step, state=StepState.FAILED, result=child_info, error=error)


def _error_of(step: Step) -> JobFailed | JobCancelled:
    child_info = json.loads(step.result or "null")
    error = step.error or Failure("unknown", "the job failed")
    if child_info["state"] == State.CANCELLED:
        return JobCancelled(child_info["job"], error.message)
    return JobFailed(child_info["job"], error.code, error.message, None, error.detail)
