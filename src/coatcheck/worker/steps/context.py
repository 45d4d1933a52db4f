"""Context: what a handler gets beside its input.

What a job says of itself (progress, phase, log, output) is kept here and written by the worker a
few times a second at most, and in any case together with the job's end: a thousand calls cost few
writes and none is lost. A file that a job leaves behind is written away by the call that names it,
which returns once it is durable, unless it is to go with the attempt's end. Every call is also a
point where a cancelled or timed-out handler stops: an `async def` at its next await, a `def` at its
next call of `ctx`.

What it does once and for all (steps, waiting, other jobs) is in `journal.py`.
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

from coatcheck import tracing
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
from coatcheck.worker.attempts.interrupts import Interrupt, Interrupted
from coatcheck.worker.steps import effects
from coatcheck.worker.steps.effects import (
    AcquireResource,
    ChildJob,
    FetchUpload,
    KeepArtifact,
    Operation,
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
    WorkerRequests,
    step_key,
)


class _Done:
    """Something that can be awaited and is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()
DEFAULT_BACKOFF = Backoff()


def _say_nothing() -> None:
    """Stand in where nobody listens any more."""


def _plain(number: float | None) -> Any:
    # Whole numbers stay whole; what only behaves like a number (Decimal) becomes one.
    return number if number is None or isinstance(number, int) else float(number)


def _span(duration: Duration, what: str) -> int:
    span = milliseconds(duration, what)
    if span > LONGEST_MS:
        raise InvalidInput(f"{what} must be at most ten years")
    return span


def _finite(fields: dict[str, object]) -> dict[str, object]:
    # NaN and infinity are not JSON; in a log their names say as much.
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }


def _deals_with_an_error() -> bool:
    """Tell whether the handler is in an `except` or a `finally` because of an error that is not on
    record: it may not come the next time.
    """
    error = sys.exception()
    return error is not None and not isinstance(error, (StepFailed, JobError))


class DurableSteps(NamedTuple):
    """What a handler does once and for all: what is on record, and who does what is not."""

    journal: Journal
    host: AsyncStepRunner | BlockingStepRunner


class Context:
    """A handler's view of its own job. In an `async def` handler its methods are awaited; in a
    `def` handler the same methods are simply called.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        blocking: bool,
        on_report: Callable[[], None],
        port: WorkerRequests,
        clock: Clock,
        backoff: Backoff = DEFAULT_BACKOFF,
        short_ms: int = SHORT_MS,
    ) -> None:
        self._claim = claim
        self._blocking = blocking
        self._on_report = on_report
        self._backoff = backoff
        self._short_ms = short_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._phase: str | None = None
        self._events: list[NewJobEvent] = []
        self._steps: list[Step] = []
        self._files: dict[str, SmallFile] = {}  # that go with the attempt's end
        self._names: set[str] = set()  # of all files that this attempt leaves
        self._interrupt: Interrupt | None = None
        self._durable: DurableSteps | None = None  # made for the first handler call that needs it
        self._task: asyncio.Task[Any] | None = None
        self._thread: int | None = None
        self._asked_which_attempt = False
        self.port: WorkerRequests = port

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.lease.job_id

    @property
    def tenant(self) -> str:
        """Whose job it is."""
        return self._claim.lease.tenant

    @property
    def surface(self) -> str:
        """By which door it came in: `api`, or a surface's name."""
        return self._claim.surface

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        self._asked_which_attempt = True
        return self._claim.attempt

    @property
    def traceparent(self) -> str | None:
        """The trace this belongs to (W3C Trace Context), to be handed on with calls of its own."""
        return tracing.current_traceparent() or self._claim.traceparent

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: cancelled, out of time, or its worker is going away."""
        return self._interrupt is not None

    @property
    def goes_on_elsewhere(self) -> bool:
        """Whether it should stop because another worker has the job now, or will take it up: what
        goes on outside may go on.
        """
        return self._interrupt in (Interrupt.DRAIN, Interrupt.LOST)

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Say how far the job has come; the last word wins."""
        numbers = [float(number) for number in (done, total) if number is not None]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"progress is told in numbers, not {done!r} of {total!r}")
        words = None if message is None else storable(message)
        if not self._is_on_its_way:
            with self._lock:
                self._progress = Progress(_plain(done), _plain(total), words)
        return self._said()

    def phase(self, name: str) -> Awaitable[None]:
        """Name what the job is doing now, such as "loading". Every phase stands in its log, in
        order, however short it was.
        """
        if not self._is_on_its_way:
            with self._lock:
                self._begin_phase(storable(name))
        return self._said()

    def _begin_phase(self, name: str) -> None:
        if self._phase is not None:  # it has not been written yet, and is over
            said = json.dumps({"phase": self._phase})
            self._events.append(NewJobEvent(EventType.PROGRESS, said))
        self._phase = name

    def log(self, message: str, **fields: object) -> Awaitable[None]:
        """Add a line to the job's own log, for whoever submitted it."""
        data = json.dumps({"message": message, **_finite(fields)}, default=str, ensure_ascii=False)
        return self._tell(EventType.LOG, data)

    def emit(self, data: Any) -> Awaitable[None]:
        """Give out a part of the result, for whoever follows the job; any JSON, or a type of
        pydantic's.
        """
        return self._tell(EventType.OUTPUT, to_json(data).decode())

    def _tell(self, type_: EventType, data: str) -> Awaitable[None]:
        if not self._is_on_its_way:
            with self._lock:
                self._events.append(NewJobEvent(type_, storable(data)))
        return self._said()

    def artifact(
        self, name: str, data: Data, content_type: str | None = None, *, at_end: bool = False
    ) -> Any:
        """Leave a file behind, for whoever submitted the job; the last one under a name counts.

        `data` is bytes, a `pathlib.Path`, or a file open in binary mode, which is read as it is
        written away. Without a content type the name tells. Returns what was kept.

        With `at_end` small bytes, up to 64 KB, are written in the same go as the attempt's end: no
        write of their own, and nobody sees them earlier.
        """
        check_name(name)
        media_type = check_content_type(content_type, name)
        if not isinstance(data, (bytes, bytearray, memoryview, Path)) and not hasattr(data, "read"):
            what = type(data).__name__
            raise TypeError(
                f"an artifact is bytes, a pathlib.Path or a file open in binary mode, not {what}"
            )
        self._check_room_for(name)
        if at_end and (content := self._at_end(data)) is not None:
            job = (self.tenant, self.job_id)
            file = small_file(job, name, media_type, content, self._clock.now())
            return self._ask(effects.done_here(lambda: self._left(file)))
        with self._lock:
            self._files.pop(name, None)
        return self._ask(effects.asked(KeepArtifact(name, data, media_type)))

    def _at_end(self, data: Data) -> bytes | None:
        """Return what can go with the attempt's end; None where it is large, or has to be read, or
        there may be no room for it then: of files that earlier attempts have left nothing is known.
        """
        if self._claim.lease.fence > 1:
            return None
        if not isinstance(data, (bytes, bytearray, memoryview)):
            return None
        return bytes(data) if memoryview(data).nbytes <= IN_ROW_BYTES else None

    def _check_room_for(self, name: str) -> None:
        # The store does not know yet of those that go with the attempt's end.
        if name not in self._names and len(self._names) >= MOST_OF_A_JOB:
            raise Conflict(TOO_MANY)
        self._names.add(name)

    def _left(self, file: SmallFile) -> Artifact:
        self.leave([file])
        return file.artifact

    def file(self, upload: Upload) -> Any:
        """Return the path of a file that was uploaded for this job. It was checked against its
        SHA-256, may be read and changed, and is removed when the attempt ends.
        """
        if not isinstance(upload, Upload):
            raise TypeError(f"ctx.file takes an Upload of the input, not {upload!r}")
        return self._ask(effects.asked(FetchUpload(upload.upload)))

    def acquire_one(self, group: str, names: Sequence[str]) -> Any:
        """Acquire the first of these resources that no other running job holds; return its name.

        Return None if all are held. The job holds the resource until its attempt ends. A resource
        is any name that jobs agree on: a GPU, a slot of a server that does one thing at a time.
        """
        if not is_name(group):
            raise InvalidInput(f"{group!r} cannot name a group of resources: {NAME_RULE}")
        return self._ask(effects.asked(AcquireResource(group, tuple(names))))

    def place(self, group: str, names: Sequence[str]) -> Any:
        """Acquire a resource. Deprecated: use `acquire_one`."""
        warnings.warn(
            "ctx.place() is deprecated; use ctx.acquire_one()", DeprecationWarning, stacklevel=2
        )
        return self.acquire_one(group, names)

    def service(self, name: str, body: bytes = b"") -> Any:
        """Return what the service of a confined kind answers to `name`; NotFound if it has none."""
        return self._ask(effects.asked(Serve(name, body)))

    def _ask(self, asking: Operation) -> Any:
        host = self._made.host
        host.caller()  # raises where the handler is on its way out
        return host.drive(asking, self.job_id)

    # --- once and for all

    @property
    def step_key(self) -> str:
        """In the body of a step: a name for it that no other step has and that is the same whenever
        it is tried. Pass it to other systems, so that they do a thing once.
        """
        key = step_key.get(None)
        if key is None:
            raise RuntimeError("ctx.step_key is asked for in the body of a step")
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
        """Run a function and keep its result for good: a later attempt gets that, without running
        it again. Where it raises, it is tried again up to `retries` times, by the kind's backoff;
        then the handler gets StepFailed.

        In an `async def` handler a `def` runs in a thread. `key` tells it from others of its name.

        With `on_timeout="fail"` a step that takes longer than `timeout` fails its job for good,
        with the code `step-timeout`. If the handler has a process of its own, that is killed.

        With `wait=False` the handler goes on before the result is on record, if it was there in no
        time (50 ms): it is written with what comes next, or a tenth of a second later. For what may
        run again though the handler has gone on: it changes nothing, and gives the same each time.
        """
        body = StepFunction(fn, args)
        if retries is not None and retries < 0:
            raise InvalidInput("retries must not be negative")
        limit = None if timeout is None else _span(timeout, "timeout") / 1000
        noted = None if wait else self._on_report
        fatal = on_timeout == "fail" and limit is not None
        policy = effects.StepPolicy(retries or 0, limit, self._backoff, noted, fatal)
        return self._take(Op.STEP, body.name, key, effects.run_step, body, policy)

    def sleep(self, duration: Duration) -> Any:
        """Wait for so many seconds (or "3d"), without holding a slot if that is long."""
        wait = 0 if duration == 0 else _span(duration, "sleep")
        return self._take(Op.SLEEP, "sleep", None, effects.sleep, wait)

    def wait_for(self, event: str, timeout: Duration | None = None) -> Any:
        """Wait until somebody sends this event to the job, and return what came with it. Raises
        TimeoutError if that takes longer than `timeout`.
        """
        if not is_name(event):
            raise InvalidInput(f"{event!r} cannot name an event: {NAME_RULE}")
        wait = None if timeout is None else _span(timeout, "timeout")
        return self._take(Op.EVENT, event, None, effects.wait_for, wait)

    def spawn(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        key: str | int | None = None,
    ) -> Any:
        """Submit another job, once, and return a handle for `gather`."""
        text = to_json(input).decode()
        return self._take(Op.CHILD, kind, key, effects.spawn, kind, text)

    def gather(self, *handles: ChildJob) -> Any:
        """Wait until all of these jobs have ended, and return their results in order. Raises
        JobFailed or JobCancelled for the first that did not succeed.
        """
        for handle in handles:
            if not isinstance(handle, ChildJob):
                raise TypeError(f"gather takes what ctx.spawn returned, not {handle!r}")
        return self._take(Op.GATHER, "gather", None, effects.gather, handles)

    @property
    def _made(self) -> DurableSteps:
        if self._durable is None:
            journal = Journal()
            parts = (self.port, journal, self._clock.now, self._short_ms)
            host = (
                BlockingStepRunner(*parts, self._thread)
                if self._blocking
                else AsyncStepRunner(*parts, self._task)
            )
            self._durable = DurableSteps(journal, host)
            if self._interrupt is not None:
                host.interrupt(self._interrupt)
        return self._durable

    @property
    def _is_on_its_way(self) -> bool:
        """Whether the handler is on its way back to where it was, or out because it waits: what it
        says then was said before, or will be said.
        """
        if self._durable is None:
            return False
        journal, host = self._durable
        return journal.replaying or host.waiting is not None

    def _take(
        self,
        op: Op,
        name: str,
        key: str | int | None,
        operation: Callable[..., Operation],
        *arguments: Any,
    ) -> Any:
        """Take a step. Which one it is, is settled here, before anything is awaited."""
        if isinstance(key, str) and key != storable(key):
            raise InvalidInput(f"a key cannot be written down: {key!r}")
        journal, host = self._made
        caller = host.caller()
        aside = caller != host.own or self._interrupt is not None or _deals_with_an_error()
        entry = journal.come_to(op, name, key, caller, aside=aside)
        doing = operation(journal, entry, self._clock.now, *arguments)
        step_key = f"{self.job_id}/{entry.id.label}"
        return host.drive(effects.entered(journal, entry, doing), step_key)

    def _said(self) -> Awaitable[None]:
        self._on_report()
        if self._blocking:
            if self._interrupt is not None:
                raise Interrupted(self._interrupt)
            return _DONE
        return asyncio.sleep(0)

    # --- for the worker

    @property
    def waiting(self) -> Waiting | None:
        """What the handler waits for, if it was unwound for that."""
        return None if self._durable is None else self._durable.host.waiting

    async def begin_async(self, task: asyncio.Task[Any] | None) -> None:
        """Get ready to run the handler in a task: read what earlier attempts did."""
        self._task = task
        if self._claim.lease.fence > 1:
            self._made.journal.load(*await asyncio.wrap_future(self.port.ask(ReadHistory())))

    def begin_blocking(self) -> None:
        """Do the same for one that runs in the current thread."""
        self._thread = threading.get_ident()
        if self._claim.lease.fence > 1:
            self._made.journal.load(*self.port.ask(ReadHistory()).result())

    def check_end(self) -> None:
        """The handler has returned: raise StepsChanged if its job has more on record than that."""
        if self._durable is None:
            return
        may_be_early = self._asked_which_attempt or self._interrupt is not None
        made_at = ulid_time(self.job_id) if is_ulid(self.job_id) else 0
        self._durable.journal.check_end(made_at, may_be_early=may_be_early)

    def end(self) -> None:
        """Say and ask no more: its attempt has been settled, or will be without it."""
        self._on_report = _say_nothing
        self.port = CLOSED
        if self._durable is not None:
            self._durable.host.port = CLOSED

    def interrupt(self, why: Interrupt) -> None:
        """Tell the handler to stop."""
        self._interrupt = why
        if self._durable is not None:
            self._durable.host.interrupt(why)

    def read_input(self) -> Future[str]:
        """Read the input of the job, which is kept apart."""
        return self.port.ask(ReadInput())

    def repeat(self, report: Report) -> None:
        """Say what the handler has said in another process."""
        with self._lock:
            self._progress = report.progress or self._progress
            if report.phase is not None:
                self._begin_phase(report.phase)
            self._events += report.events
            self._steps += report.steps
        self._on_report()

    def leave(self, files: Sequence[SmallFile]) -> None:
        """Have files go with the attempt's end."""
        with self._lock:
            self._files.update({file.artifact.name: file for file in files})

    def take_files(self) -> tuple[SmallFile, ...]:
        """Return the files that go with the attempt's end."""
        with self._lock:
            files = tuple(self._files.values())
            self._files.clear()
        return files

    def take_report(self) -> Report | None:
        """Return what was said since the last time, if anything was."""
        noted = () if self._durable is None else self._durable.journal.take_unwritten()
        with self._lock:
            said = self._progress is not None or self._phase is not None or self._events
            if not (said or self._steps or noted):
                return None
            steps = (*self._steps, *noted)
            report = Report(self._progress, self._phase, tuple(self._events), steps)
            self._progress, self._phase = None, None
            self._events.clear()
            self._steps.clear()
        return report
