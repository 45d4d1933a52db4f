"""Context: a handler's access to its job.

Reports (progress, phase, log, output) are collected here. The worker writes them a few times a
second at most, and always together with the job's outcome: a thousand calls cost few writes, and no
report is lost. `ctx.artifact` returns once its file is durable, unless the file is to be written
with the outcome. Every call is also a point at which an interrupted handler stops: an `async def`
at its next await, a `def` at its next call of `ctx`.

Durable operations (steps, waits, child jobs) are described in `journal.py`.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from coatcheck.blobs.blobs import Data
from coatcheck.clock import Clock
from coatcheck.errors import Conflict, InvalidInput, JobError, StepFailed
from coatcheck.ids import is_ulid, ulid_time
from coatcheck.model.artifact import (
    IN_ROW_BYTES,
    MOST_OF_A_JOB,
    TOO_MANY,
    Artifact,
    SmallFile,
    check_content_type,
    check_name,
    small_file,
)
from coatcheck.model.duration import LONGEST_MS, Duration, milliseconds
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Claim, Progress
from coatcheck.model.kind import Backoff
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.outcome import Waiting
from coatcheck.model.step import Op, Step
from coatcheck.model.text import storable
from coatcheck.model.upload import Upload
from coatcheck.store.base import Report
from coatcheck.tracing import NO_TRACING, Tracing
from coatcheck.worker.attempts.interrupts import Interrupt, Interrupted
from coatcheck.worker.steps import effects
from coatcheck.worker.steps.effects import (
    AcquireResource,
    ChildJob,
    Effects,
    FetchUpload,
    KeepArtifact,
    ReadHistory,
    ReadInput,
    Serve,
)
from coatcheck.worker.steps.journal import Journal
from coatcheck.worker.steps.step_function import StepFunction
from coatcheck.worker.steps.step_runner import (
    CLOSED,
    SHORT_MS,
    AsyncStepRunner,
    BlockingStepRunner,
    HandlerRequests,
    step_key,
)


class _Done:
    """An awaitable that is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()
DEFAULT_BACKOFF = Backoff()


def _to_number(number: float | None) -> Any:
    # Keep whole numbers; convert other number types, such as Decimal, to float.
    return number if number is None or isinstance(number, int) else float(number)


def _to_ms(duration: Duration, what: str) -> int:
    span = milliseconds(duration, what)
    if span > LONGEST_MS:
        raise InvalidInput(f"{what} must be at most ten years")
    return span


def _replace_non_finite(fields: dict[str, object]) -> dict[str, object]:
    # NaN and infinity are not JSON; a log shows their names.
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }


def _is_handling_error() -> bool:
    """Return whether the handler is in an `except` or `finally` because of an unrecorded error,
    which may not occur in the next run.
    """
    error = sys.exception()
    return error is not None and not isinstance(error, (StepFailed, JobError))


class DurableSteps(NamedTuple):
    """A handler's journal, and the runner that performs its effects."""

    journal: Journal
    runner: AsyncStepRunner | BlockingStepRunner


class Context:
    """A handler's view of its own job.

    In an `async def` handler its methods are awaited; in a `def` handler they are simply called.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        blocking: bool,
        requests: HandlerRequests,
        clock: Clock,
        backoff: Backoff = DEFAULT_BACKOFF,
        short_ms: int = SHORT_MS,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._claim = claim
        self._blocking = blocking
        self._backoff = backoff
        self._short_ms = short_ms
        self._clock = clock
        self.tracing = tracing
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._phase: str | None = None
        self._events: list[NewJobEvent] = []
        self._steps: list[Step] = []
        self._files: dict[str, SmallFile] = {}  # written with the attempt's outcome
        self._names: set[str] = set()  # of all artifacts of this attempt
        self._interrupt: Interrupt | None = None
        self._durable: DurableSteps | None = None  # created on first use
        self._task: asyncio.Task[Any] | None = None
        self._thread: int | None = None
        self._attempt_was_read = False
        self.requests: HandlerRequests = requests

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.lease.job_id

    @property
    def tenant(self) -> str:
        """The tenant that owns the job."""
        return self._claim.lease.tenant

    @property
    def surface(self) -> str:
        """The surface through which the job was submitted: `api`, or a surface's name."""
        return self._claim.surface

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        self._attempt_was_read = True
        return self._claim.attempt

    @property
    def traceparent(self) -> str | None:
        """The trace of this attempt (W3C Trace Context), to pass on with outgoing calls."""
        return self.tracing.current_traceparent() or self._claim.traceparent

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: cancelled, timed out, or its worker is stopping."""
        return self._interrupt is not None

    @property
    def continues_elsewhere(self) -> bool:
        """Whether the handler should stop because another worker runs the job, or will. External
        work that it started may continue.
        """
        return self._interrupt in (Interrupt.DRAIN, Interrupt.LOST)

    @property
    def goes_on_elsewhere(self) -> bool:
        """The old name of `continues_elsewhere`. Deprecated."""
        warnings.warn(
            "ctx.goes_on_elsewhere is deprecated; use ctx.continues_elsewhere",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.continues_elsewhere

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Report the job's progress. A later call replaces an earlier one."""
        numbers = [float(number) for number in (done, total) if number is not None]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"progress must be finite numbers, not {done!r} of {total!r}")
        text = None if message is None else storable(message)
        if not self._is_silent:
            with self._lock:
                self._progress = Progress(_to_number(done), _to_number(total), text)
        return self._reported()

    def phase(self, name: str) -> Awaitable[None]:
        """Report what the job is doing now, such as "loading".

        Every phase appears in the job's events, in order, however short it was.
        """
        if not self._is_silent:
            with self._lock:
                self._begin_phase(storable(name))
        return self._reported()

    def _begin_phase(self, name: str) -> None:
        if self._phase is not None:  # the previous phase is over, and not written yet
            data = json.dumps({"phase": self._phase})
            self._events.append(NewJobEvent(EventType.PROGRESS, data))
        self._phase = name

    def log(self, message: str, **fields: object) -> Awaitable[None]:
        """Add a line to the job's log."""
        data = json.dumps(
            {"message": message, **_replace_non_finite(fields)}, default=str, ensure_ascii=False
        )
        return self._add_event(EventType.LOG, data)

    def emit(self, data: Any) -> Awaitable[None]:
        """Add a part of the result to the job's event stream: any JSON value or pydantic type."""
        return self._add_event(EventType.OUTPUT, to_json(data).decode())

    def _add_event(self, type_: EventType, data: str) -> Awaitable[None]:
        if not self._is_silent:
            with self._lock:
                self._events.append(NewJobEvent(type_, storable(data)))
        return self._reported()

    def artifact(
        self, name: str, data: Data, content_type: str | None = None, *, at_end: bool = False
    ) -> Any:
        """Store a file with the job, and return its description. A later artifact replaces an
        earlier one of the same name.

        `data` is bytes, a `pathlib.Path`, or a file open in binary mode, which is streamed. Without
        a content type, the name decides.

        With `at_end`, bytes of up to 64 KB are written together with the attempt's outcome. That
        saves a write, and the artifact is not visible earlier.
        """
        check_name(name)
        media_type = check_content_type(content_type, name)
        if not isinstance(data, (bytes, bytearray, memoryview, Path)) and not hasattr(data, "read"):
            what = type(data).__name__
            raise TypeError(
                f"an artifact must be bytes, a pathlib.Path or a file open in binary mode,"
                f" not {what}"
            )
        self._check_file_count(name)
        if at_end and (content := self._small_content(data)) is not None:
            job = (self.tenant, self.job_id)
            file = small_file(job, name, media_type, content, self._clock.now())
            return self._run_effects(effects.call_locally(lambda: self._keep_file(file)))
        with self._lock:
            self._files.pop(name, None)
        return self._run_effects(effects.send_request(KeepArtifact(name, data, media_type)))

    def _small_content(self, data: Data) -> bytes | None:
        """Return content that can be written with the attempt's outcome.

        None if it is large or has to be read, or if the limit on artifacts might be exceeded then:
        the artifacts of earlier attempts are not known here.
        """
        if self._claim.lease.fence > 1:
            return None
        if not isinstance(data, (bytes, bytearray, memoryview)):
            return None
        return bytes(data) if memoryview(data).nbytes <= IN_ROW_BYTES else None

    def _check_file_count(self, name: str) -> None:
        # The store does not know the artifacts that are written with the outcome.
        if name not in self._names and len(self._names) >= MOST_OF_A_JOB:
            raise Conflict(TOO_MANY)
        self._names.add(name)

    def _keep_file(self, file: SmallFile) -> Artifact:
        self.add_files([file])
        return file.artifact

    def file(self, upload: Upload) -> Any:
        """Return the path of an upload on this machine.

        The file was verified against its SHA-256. It may be read and changed, and is removed when
        the attempt ends.
        """
        if not isinstance(upload, Upload):
            raise TypeError(f"ctx.file takes an Upload from the input, not {upload!r}")
        return self._run_effects(effects.send_request(FetchUpload(upload.upload)))

    def acquire_one(self, group: str, names: Sequence[str]) -> Any:
        """Acquire the first of these resources that no other running job holds, until this attempt
        ends.

        Return its name, or None if all are held. Resources are plain names that jobs agree on, such
        as GPUs, or slots of a server that handles one request at a time.
        """
        if not is_name(group):
            raise InvalidInput(f"{group!r} is not a valid name of a resource group: {NAME_RULE}")
        return self._run_effects(effects.send_request(AcquireResource(group, tuple(names))))

    def place(self, group: str, names: Sequence[str]) -> Any:
        """Call `acquire_one`, the new name of this method."""
        warnings.warn(
            "ctx.place() is deprecated; use ctx.acquire_one()", DeprecationWarning, stacklevel=2
        )
        return self.acquire_one(group, names)

    def service(self, name: str, function: bytes = b"") -> Any:
        """Call the service of a confined kind, and return its response. Raise NotFound if there is
        none.
        """
        return self._run_effects(effects.send_request(Serve(name, function)))

    def _run_effects(self, performed: Effects) -> Any:
        runner = self._durable_steps.runner
        runner.current_caller()  # raises if the handler is being unwound
        return runner.run(performed, self.job_id)

    # --- durable operations

    @property
    def step_key(self) -> str:
        """A key of the current step that is unique and the same in every attempt.

        Pass it to other systems as an idempotency key. Available only in the function of a step.
        """
        key = step_key.get(None)
        if key is None:
            raise RuntimeError("ctx.step_key is available only in the function of a step")
        return key

    def step(
        self,
        fn: Callable[..., Any],
        *args: Any,
        key: str | int | None = None,
        retries: int | None = None,
        timeout: Duration | None = None,
        on_timeout: Literal["retry", "fail"] = "retry",
        wait: bool = True,
    ) -> Any:
        """Run a function and record its result: later attempts return the recorded result instead
        of running the function again. If it raises, it is retried up to `retries` times with the
        kind's backoff; then the handler gets StepFailed.

        In an `async def` handler, a `def` function runs in a thread. `key` distinguishes steps of
        the same name.

        With `on_timeout="fail"`, a step that exceeds its `timeout` fails the job for good, with the
        code `step-timeout`. If the handler has its own process, the process is killed.

        With `wait=False`, the handler continues before the result is recorded, if the function took
        less than 50 ms. The result is written with the next write, or a tenth of a second later.
        Use it for functions that have no side effects and return the same value each time: they may
        run again after a crash.
        """
        function = StepFunction(fn, args)
        if retries is not None and retries < 0:
            raise InvalidInput("retries must not be negative")
        limit = None if timeout is None else _to_ms(timeout, "timeout") / 1000
        record_soon = None if wait else self.requests.report_soon
        fatal = on_timeout == "fail" and limit is not None
        policy = effects.StepPolicy(retries or 0, limit, self._backoff, record_soon, fatal)
        return self._run_durable(Op.STEP, function.name, key, effects.run_step, function, policy)

    def sleep(self, duration: Duration) -> Any:
        """Wait for a duration in seconds, or a text such as "3d". A long wait holds no slot."""
        wait = 0 if duration == 0 else _to_ms(duration, "sleep")
        return self._run_durable(Op.SLEEP, "sleep", None, effects.sleep, wait)

    def wait_for(self, event: str, timeout: Duration | None = None) -> Any:
        """Wait until this event is sent to the job, and return its data. Raise TimeoutError after
        `timeout`.
        """
        if not is_name(event):
            raise InvalidInput(f"{event!r} is not a valid event name: {NAME_RULE}")
        wait = None if timeout is None else _to_ms(timeout, "timeout")
        return self._run_durable(Op.EVENT, event, None, effects.wait_for, wait)

    def spawn(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        key: str | int | None = None,
    ) -> Any:
        """Submit a child job, once, and return a handle for `gather`."""
        text = to_json(input).decode()
        return self._run_durable(Op.CHILD, kind, key, effects.spawn, kind, text)

    def gather(self, *handles: ChildJob) -> Any:
        """Wait until all of these jobs have finished, and return their results in order. Raise
        JobFailed or JobCancelled for the first that did not succeed.
        """
        for handle in handles:
            if not isinstance(handle, ChildJob):
                raise TypeError(f"ctx.gather takes handles from ctx.spawn, not {handle!r}")
        return self._run_durable(Op.GATHER, "gather", None, effects.gather, handles)

    @property
    def _durable_steps(self) -> DurableSteps:
        if self._durable is None:
            journal = Journal()
            parts = (self.requests, journal, self._clock.now, self._short_ms)
            runner = (
                BlockingStepRunner(*parts, self._thread)
                if self._blocking
                else AsyncStepRunner(*parts, self._task)
            )
            self._durable = DurableSteps(journal, runner)
            if self._interrupt is not None:
                runner.interrupt(self._interrupt)
        return self._durable

    @property
    def _is_silent(self) -> bool:
        """Whether reports are dropped: the handler is replaying or being unwound, so they were made
        before or will be made again.
        """
        if self._durable is None:
            return False
        journal, runner = self._durable
        return journal.replaying or runner.waiting is not None

    def _run_durable(
        self,
        op: Op,
        name: str,
        key: str | int | None,
        make_effects: Callable[..., Effects],
        *arguments: Any,
    ) -> Any:
        """Begin a durable operation. Its identity is fixed here, before anything is awaited."""
        if isinstance(key, str) and key != storable(key):
            raise InvalidInput(f"the key is not valid text: {key!r}")
        journal, runner = self._durable_steps
        caller = runner.current_caller()
        unordered = (
            caller != runner.handler_caller or self._interrupt is not None or _is_handling_error()
        )
        entry = journal.begin(op, name, key, caller, unordered=unordered)
        started = make_effects(journal, entry, self._clock.now, *arguments)
        step_key = f"{self.job_id}/{entry.id.label}"
        return runner.run(effects.complete_entry(journal, entry, started), step_key)

    def _reported(self) -> Awaitable[None]:
        self.requests.report_soon()
        if self._blocking:
            if self._interrupt is not None:
                raise Interrupted(self._interrupt)
            return _DONE
        return asyncio.sleep(0)

    # --- for the worker

    @property
    def waiting(self) -> Waiting | None:
        """The wait for which the handler was unwound, if any."""
        return None if self._durable is None else self._durable.runner.waiting

    async def begin_async(self, task: asyncio.Task[Any] | None) -> None:
        """Prepare to run the handler in a task: load the history of earlier attempts."""
        self._task = task
        if self._claim.lease.fence > 1:
            self._durable_steps.journal.load(
                *await asyncio.wrap_future(self.requests.send(ReadHistory()))
            )

    def begin_blocking(self) -> None:
        """Prepare to run the handler in this thread: load the history of earlier attempts."""
        self._thread = threading.get_ident()
        if self._claim.lease.fence > 1:
            self._durable_steps.journal.load(*self.requests.send(ReadHistory()).result())

    def check_end(self) -> None:
        """Raise StepsChanged if the handler has returned before reaching all recorded steps."""
        if self._durable is None:
            return
        may_return_early = self._attempt_was_read or self._interrupt is not None
        created_at = ulid_time(self.job_id) if is_ulid(self.job_id) else 0
        self._durable.journal.check_end(created_at, may_return_early=may_return_early)

    def end(self) -> None:
        """Reject further reports and requests: the attempt has been settled, or will be without
        them.
        """
        self.requests = CLOSED
        if self._durable is not None:
            self._durable.runner.requests = CLOSED

    def interrupt(self, why: Interrupt) -> None:
        """Interrupt the handler."""
        self._interrupt = why
        if self._durable is not None:
            self._durable.runner.interrupt(why)

    def read_input(self) -> Future[str]:
        """Read the job's offloaded input."""
        return self.requests.send(ReadInput())

    def merge_report(self, report: Report) -> None:
        """Add a report that the handler made in another process."""
        with self._lock:
            self._progress = report.progress or self._progress
            if report.phase is not None:
                self._begin_phase(report.phase)
            self._events += report.events
            self._steps += report.steps
        self.requests.report_soon()

    def add_files(self, files: Sequence[SmallFile]) -> None:
        """Add files that are written with the attempt's outcome."""
        with self._lock:
            self._files.update({file.artifact.name: file for file in files})

    def take_files(self) -> tuple[SmallFile, ...]:
        """Return the files that are written with the attempt's outcome."""
        with self._lock:
            files = tuple(self._files.values())
            self._files.clear()
        return files

    def take_report(self) -> Report | None:
        """Return the report since the last call, or None if it is empty."""
        unwritten = () if self._durable is None else self._durable.journal.take_unwritten()
        with self._lock:
            reported = self._progress is not None or self._phase is not None or self._events
            if not (reported or self._steps or unwritten):
                return None
            steps = (*self._steps, *unwritten)
            report = Report(self._progress, self._phase, tuple(self._events), steps)
            self._progress, self._phase = None, None
            self._events.clear()
            self._steps.clear()
        return report
