"""What each kind of step does, as generators: they yield what is to be done outside, and get the
answer. So a handler on a loop and one in a thread share them; `worker/steps/step_runner.py` has a
driver for each. What is kept of them, and why, is at the head of `journal.py`.
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
from coatcheck.worker.attempts.failure import failure_of
from coatcheck.worker.steps.journal import Journal, JournalEntry
from coatcheck.worker.steps.step_function import StepFunction


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Asked of the worker: the job's steps and messages."""


@dataclass(frozen=True, slots=True)
class RecordSteps:
    """Asked of the worker: write these steps."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class SpawnJob:
    """Asked of the worker: submit a job, write the step whose result is its id, and return that."""

    step: Step
    kind: str
    input: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadChildren:
    """Asked of the worker: how these jobs stand."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """How a job stands; the result is a JSON text. None of it for one that is gone."""

    state: State | None
    result: str | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class ReadInput:
    """Asked of the worker: the job's input, a JSON text, which is kept apart."""


@dataclass(frozen=True, slots=True)
class ReadPayload:
    """Asked of the worker: the JSON text of something in the job's history that is kept apart."""

    reference: str


@dataclass(frozen=True, slots=True)
class KeepArtifact:
    """Asked of the worker: keep a file of the job, and return what was kept."""

    name: str
    data: Data
    content_type: str


@dataclass(frozen=True, slots=True)
class FetchUpload:
    """Asked of the worker: put a file of the job's input on this machine, and return where."""

    upload_id: str


@dataclass(frozen=True, slots=True)
class AcquireResource:
    """Asked of the worker: the first of these places that no other job has, for this attempt."""

    group: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Serve:
    """Asked of the worker: what the kind's service answers (model/confinement.py), as bytes."""

    name: str
    body: bytes


Question = (
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
    """To be done by the driver: run the body of a step.

    If `fatal`, running out of time fails the job, and the worker kills the process of a body that
    does not let its own driver stop it.
    """

    body: StepFunction
    timeout: float | None
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Suspend:
    """To be done by the driver: wait until a time, or until all of a group has come. Where it comes
    back, either the time has passed or it is worth looking again.
    """

    until: int | None
    group: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildJob:
    """A job that a handler has spawned."""

    job_id: str
    kind: str


# The code of a job that failed because a step ran out of time.
STEP_TIMEOUT = "step-timeout"


def step_timeout_message(step: str, seconds: float) -> str:
    """Return what a job says that failed because a step ran out of time."""
    return f"step {step!r} took longer than {seconds:g} s"


_GONE = "gone"  # how a job ended of which nothing is left
# A step that took longer is worth a write of its own.
QUICK_MS = 50

Operation = Generator[Any, Any, Any]
Now = Callable[[], int]


def asked(question: Question) -> Operation:
    """Ask the worker, and return the answer; no step is made of it."""
    return (yield question)


def done_here(do: Callable[[], Any]) -> Operation:
    """Do what nobody has to be asked for."""
    yield from ()
    return do()


def entered(journal: Journal, entry: JournalEntry, operation: Operation) -> Operation:
    """Do an operation, and note that the handler is done with its step, however it ends."""
    try:
        return (yield from operation)
    finally:
        journal.done_with(entry)


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """How a step is tried."""

    retries: int
    timeout: float | None
    backoff: Backoff
    noted: Callable[[], None] | None = None  # None: the handler goes on once its end is on record
    fatal: bool = False  # running out of time fails the job


def run_step(
    journal: Journal, entry: JournalEntry, now: Now, body: StepFunction, policy: StepPolicy
) -> Operation:
    """Run a function once and for all."""
    step = entry.recorded
    tried = 0
    if step is not None:
        if step.state is StepState.SUCCEEDED:
            return _read(journal, entry, body, (yield from _whole(step.result or "null")))
        if step.state is StepState.FAILED and step.survived:
            raise _failed(entry, step)
        if step.state is StepState.WAITING:  # for its next try
            tried = step.attempts
            yield Suspend(step.wake_at)
    if journal.went_another_way:  # as nobody could tell, should it end while the body runs
        yield RecordSteps(journal.take_unwritten())
    while True:
        began = now()
        tried += 1
        try:
            result = body.write((yield RunStep(body, policy.timeout, policy.fatal)))
            value = body.read(result)  # what cannot be read later must not be on record
        except (Fail, Retry):
            raise  # how its job should go on, not how the step has ended
        except Exception as error:
            step = Step(
                entry.seq,
                entry.id,
                StepState.FAILED,
                began,
                attempts=tried,
                error=failure_of(error),
                overlapped=entry.overlapped,
            )
            if tried <= policy.retries:
                until = now() + policy.backoff.delay(tried)
                journal.note(replace(step, state=StepState.WAITING, wake_at=until))
                yield Suspend(until)
                continue
            step = replace(step, finished_at=now())
            yield RecordSteps((*journal.take_unwritten(), step))
            journal.failed(entry, step)
            raise _failed(entry, step) from error
        step = Step(
            entry.seq,
            entry.id,
            StepState.SUCCEEDED,
            began,
            finished_at=now(),
            attempts=tried,
            result=result,
            overlapped=entry.overlapped,
        )
        yield from _kept(journal, step, policy)
        return value


def _kept(journal: Journal, step: Step, policy: StepPolicy) -> Operation:
    """Put a step on record, or have it put there soon, where that will do."""
    took_ms = (step.finished_at or step.started_at) - step.started_at
    if policy.noted is not None and took_ms < QUICK_MS and fits_inline(step.result or ""):
        journal.note(step)
        policy.noted()
    else:
        yield RecordSteps((*journal.take_unwritten(), step))
        journal.keep(step)


def _read(journal: Journal, entry: JournalEntry, body: StepFunction, text: str) -> Any:
    try:
        return body.read(text)
    except ValidationError as error:
        raise journal.refusal(
            f"what this job has on record as the result of {entry.id} is not what the code now says"
            f" it returns: {error.errors(include_url=False, include_input=False)[0]['msg']}"
        ) from error


def _whole(text: str) -> Operation:
    """Return what is on record, also where it is kept apart."""
    return (yield ReadPayload(text)) if is_reference(text) else text


def _failed(entry: JournalEntry, step: Step) -> StepFailed:
    error = step.error or Failure("error", "it failed")
    return StepFailed(entry.id.name, error.code, error.message)


def sleep(journal: Journal, entry: JournalEntry, now: Now, milliseconds: int) -> Operation:
    """Wait for a time."""
    step = entry.recorded
    if step is not None and step.state is StepState.SUCCEEDED:
        return
    if step is None or step.wake_at is None:
        began = now()
        step = Step(entry.seq, entry.id, StepState.WAITING, began, wake_at=began + milliseconds)
        journal.note(replace(step, overlapped=entry.overlapped))
    while step.wake_at is not None and now() < step.wake_at:
        yield Suspend(step.wake_at)
    journal.note(
        replace(
            step,
            state=StepState.SUCCEEDED,
            finished_at=max(now(), step.wake_at or 0),
            overlapped=entry.overlapped,
        )
    )


def wait_for(
    journal: Journal, entry: JournalEntry, now: Now, milliseconds: int | None
) -> Operation:
    """Wait for an event from outside, and return what came with it."""
    step = entry.recorded
    if step is not None and step.state is StepState.SUCCEEDED:
        return json.loads((yield from _whole(step.result or "null")))
    if step is not None and step.state is StepState.FAILED:
        raise TimeoutError(_too_late(entry))
    if step is None:
        began = now()
        until = None if milliseconds is None else began + milliseconds
        step = Step(entry.seq, entry.id, StepState.WAITING, began, wake_at=until)
        journal.note(replace(step, overlapped=entry.overlapped))
    if journal.message(entry) is None:
        _, messages = yield ReadHistory()
        journal.learn(messages)
    while (message := journal.message(entry)) is None:
        if step.wake_at is not None and now() >= step.wake_at:
            late = Failure("timeout", _too_late(entry))
            failed = replace(step, state=StepState.FAILED, finished_at=now(), error=late)
            failed = replace(failed, survived=True, overlapped=entry.overlapped)
            yield RecordSteps((*journal.take_unwritten(), failed))
            journal.gave_up(entry)
            raise TimeoutError(late.message)
        yield Suspend(step.wake_at, (event_sent(entry.id.name, entry.message),))
        _, messages = yield ReadHistory()
        journal.learn(messages)
    data = json.loads((yield from _whole(message.data)))
    journal.note(
        replace(
            step,
            state=StepState.SUCCEEDED,
            finished_at=now(),
            result=message.data,
            overlapped=entry.overlapped,
        )
    )
    return data


def _too_late(entry: JournalEntry) -> str:
    return f"no event {entry.id.name!r} came in time"


def spawn(journal: Journal, entry: JournalEntry, now: Now, kind: str, input_: str) -> Operation:
    """Submit another job, once."""
    step = entry.recorded
    if step is None:
        began = now()
        step = Step(entry.seq, entry.id, StepState.SUCCEEDED, began, finished_at=began)
        step = replace(step, overlapped=entry.overlapped)
        job_id = yield SpawnJob(step, kind, input_, journal.take_unwritten())
        journal.keep(replace(step, result=json.dumps(job_id)))
        return ChildJob(job_id, kind)
    return ChildJob(json.loads(step.result or "null"), kind)


def gather(
    journal: Journal, entry: JournalEntry, now: Now, handles: Sequence[ChildJob]
) -> Operation:
    """Wait for spawned jobs to end, and return their results in order."""
    step = entry.recorded
    if step is not None and step.state is StepState.SUCCEEDED:
        return _read_all(journal, entry, handles, (yield from _whole(step.result or "[]")))
    if step is not None and step.state is StepState.FAILED:
        if step.survived:
            raise _how_it_ended(step)
        step = None  # the job may have been resumed since
    if step is None:
        step = Step(entry.seq, entry.id, StepState.WAITING, now())
        journal.note(replace(step, overlapped=entry.overlapped))
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
            failed = _without_result(done, handle, child)
            journal.note(failed)
            journal.failed(entry, failed)
            raise _how_it_ended(failed)
    result = f"[{','.join(child.result or 'null' for child in children)}]"
    done = replace(done, state=StepState.SUCCEEDED, result=result)
    yield RecordSteps((*journal.take_unwritten(), done))
    journal.keep(done)
    return json.loads(result)


def _read_all(journal: Journal, entry: JournalEntry, handles: Sequence[ChildJob], text: str) -> Any:
    results = json.loads(text)
    if len(results) != len(handles):
        raise journal.refusal(
            f"this job has the results of {len(results)} job(s) on record for {entry.id}, where the"
            f" code now gathers {len(handles)}"
        )
    return results


def _without_result(step: Step, handle: ChildJob, child: ChildStatus) -> Step:
    """Return what is on record of a `gather` where a job did not succeed: which, and why."""
    match child.state:
        case State.CANCELLED:
            words = f"job {handle.job_id} ({handle.kind}) was cancelled"
            error = Failure(JobCancelled.code, words)
        case None:
            error = Failure(_GONE, "it was deleted, or its retention has passed")
        case _:
            error = child.error or Failure("unknown", "it failed")
    which = json.dumps({"job": handle.job_id, "state": child.state or _GONE})
    return replace(step, state=StepState.FAILED, result=which, error=error)


def _how_it_ended(step: Step) -> JobFailed | JobCancelled:
    which = json.loads(step.result or "null")
    error = step.error or Failure("unknown", "it failed")
    if which["state"] == State.CANCELLED:
        return JobCancelled(which["job"], error.message)
    return JobFailed(which["job"], error.code, error.message, None, error.detail)
