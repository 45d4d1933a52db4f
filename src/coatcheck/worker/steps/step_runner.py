"""Performing the effects of a handler: on an event loop, or in a thread.

Each runner can run a step's function, send a request to the worker, and suspend. A long wait
suspends the job: the handler is unwound, and its outcome is `Waiting`.

- In a thread only one effect is performed at a time, so an exception unwinds the handler at once.
- On a loop other effects may be in progress beside the one that waits. The handler's task is
  cancelled once only waits are left: no effect is in progress, and none has started for a moment.
  A wait that ends before then simply continues.

While it unwinds, in a `finally` or in an `except` that catches everything, the handler's calls of
`ctx` have no effect. The next run of the handler makes them again.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from coatcheck.errors import Fail, StaleLease
from coatcheck.model.outcome import Waiting
from coatcheck.worker.attempts.interrupts import HandlerSuspended, Interrupt, Interrupted
from coatcheck.worker.steps.effects import (
    STEP_TIMEOUT,
    Effect,
    Effects,
    RunStep,
    Suspend,
    WorkerRequest,
    step_timeout_message,
)
from coatcheck.worker.steps.journal import Journal
from coatcheck.worker.steps.step_function import StepFunction

# A wait of at most this long does not suspend the job.
SHORT_MS = 1_000
# How long a handler on a loop may take to start another effect before it is suspended.
QUIET_S = 0.002
FOREVER_S = 10 * 365 * 86_400.0

# The key of the step whose function runs in this context.
step_key: contextvars.ContextVar[str] = contextvars.ContextVar("coatcheck_step_key")


class HandlerRequests(ABC):
    """The requests of one handler to its worker. Thread-safe."""

    __slots__ = ()

    @abstractmethod
    def send(self, request: WorkerRequest) -> Future[Any]:
        """Start a request. Its future raises StaleLease if the worker has lost the job."""

    async def perform(self, request: WorkerRequest) -> Any:
        """Send a request from an event loop and return its response."""
        return await asyncio.wrap_future(self.send(request))

    @abstractmethod
    def report_soon(self) -> None:
        """Have the worker write the handler's report within a tenth of a second."""

    @contextlib.contextmanager
    def limit_step(self, run: RunStep) -> Iterator[None]:  # noqa: ARG002 - for handlers in processes
        """Have the worker enforce the timeout of a fatal step."""
        yield


class ClosedRequests(HandlerRequests):
    """Rejects all requests: the attempt has ended."""

    def send(self, request: WorkerRequest) -> Future[Any]:  # noqa: ARG002 - rejects them all
        """Reject a request."""
        rejected: Future[Any] = Future()
        rejected.set_exception(StaleLease("the attempt has ended"))
        return rejected

    def report_soon(self) -> None:
        """Do nothing."""


CLOSED = ClosedRequests()


def _waiting(suspensions: list[Suspend]) -> Waiting:
    times = [each.until for each in suspensions if each.until is not None]
    groups = tuple(each.group for each in suspensions if each.group)
    return Waiting(min(times, default=None), groups)


class BlockingStepRunner:
    """Performs the effects of a `def` handler, in the handler's thread."""

    def __init__(
        self,
        requests: HandlerRequests,
        journal: Journal,
        now: Callable[[], int],
        short_ms: int,
        thread: object,
    ) -> None:
        self.requests: HandlerRequests = requests
        self._journal = journal
        self._now = now
        self._short_ms = short_ms
        self.handler_caller = thread  # identifies the handler itself among its callers
        self._interrupted = threading.Event()
        self._reason: Interrupt | None = None
        self.waiting: Waiting | None = None

    def interrupt(self, reason: Interrupt) -> None:
        """Stop the handler at its next effect."""
        self._reason = reason
        self._interrupted.set()

    def current_caller(self) -> object:
        """Return the identity of the calling thread; raise if the handler should stop."""
        self.check()
        return threading.get_ident()

    def check(self) -> None:
        """Raise if the handler should stop."""
        if self._reason is not None:
            raise Interrupted(self._reason)
        if self.waiting is not None:
            raise HandlerSuspended

    def run(self, effects: Effects, key: str) -> Any:
        """Perform effects until they return."""
        self.check()
        response: Any = None
        error: Exception | None = None
        with contextlib.closing(effects):
            while True:
                try:
                    effect = effects.send(response) if error is None else effects.throw(error)
                except StopIteration as done:
                    return done.value
                response = error = None
                try:
                    response = self._perform(effect, key)
                except Exception as raised:  # noqa: BLE001 - thrown into the effects
                    error = raised

    def _perform(self, effect: Effect, key: str) -> Any:
        match effect:
            case RunStep():
                return self._run_step(effect, key)
            case Suspend():
                self._suspend(effect)
                return None
        try:
            return self.requests.send(effect).result()
        except StaleLease:
            raise Interrupted(Interrupt.LOST) from None

    def _run_step(self, run: RunStep, key: str) -> Any:
        token = step_key.set(key)
        try:
            if run.timeout is None:
                return _call_blocking(run.function)
            with self.requests.limit_step(run):
                return self._run_with_timeout(run)
        finally:
            step_key.reset(token)

    def _run_with_timeout(self, run: RunStep) -> Any:
        context = contextvars.copy_context()
        done: Future[Any] = Future()

        def call() -> None:
            try:
                done.set_result(_call_blocking(run.function))
            except BaseException as error:  # noqa: BLE001 - raised by done.result()
                done.set_exception(error)

        threading.Thread(
            target=context.run, args=(call,), name="coatcheck-step", daemon=True
        ).start()
        try:
            return done.result(run.timeout)
        except TimeoutError:
            if done.done():
                raise
            raise _timeout_error(run) from None

    def _suspend(self, suspend: Suspend) -> None:
        if suspend.until is not None:
            left = suspend.until - self._now()
            if left <= self._short_ms and not suspend.group:
                self._interrupted.wait(max(0, left) / 1000)
                self.check()
                return
        self._journal.unwind()
        self.waiting = _waiting([suspend])
        raise HandlerSuspended


def _call_blocking(step: StepFunction) -> Any:
    if step.is_async:
        return asyncio.run(step.function(*step.arguments))
    return step.function(*step.arguments)


async def _call(step: StepFunction) -> Any:
    if step.is_async:
        return await step.function(*step.arguments)
    return await asyncio.to_thread(step.function, *step.arguments)


async def _call_with_timeout(run: RunStep) -> Any:
    limit = asyncio.timeout(run.timeout)
    try:
        async with limit:
            return await _call(run.function)
    except TimeoutError:
        if not limit.expired():
            raise
        raise _timeout_error(run) from None


def _timeout_error(run: RunStep) -> Exception:
    seconds = run.timeout or 0.0
    if run.fatal:
        return Fail(STEP_TIMEOUT, step_timeout_message(run.function.name, seconds))
    return TimeoutError(f"the step took longer than {seconds:g} s")


class AsyncStepRunner:
    """Performs the effects of an `async def` handler, on the handler's loop."""

    def __init__(
        self,
        requests: HandlerRequests,
        journal: Journal,
        now: Callable[[], int],
        short_ms: int,
        task: asyncio.Task[Any] | None,
    ) -> None:
        self.requests: HandlerRequests = requests
        self._journal = journal
        self._now = now
        self._short_ms = short_ms
        # Identifies the handler itself among its callers.
        self.handler_caller = self._task = task
        self._in_progress = 0
        self._started = 0
        self._suspensions: list[Suspend] = []
        self.waiting: Waiting | None = None

    def current_caller(self) -> object:
        """Return the calling task; raise CancelledError if the handler is being unwound."""
        if self.waiting is not None:
            raise asyncio.CancelledError
        return asyncio.current_task()

    def interrupt(self, reason: Interrupt) -> None:
        """Do nothing: the runner of the attempt cancels the handler's task."""

    async def run(self, effects: Effects, key: str) -> Any:
        """Perform effects until they return."""
        self._in_progress += 1
        self._started += 1
        response: Any = None
        error: Exception | None = None
        try:
            while True:
                try:
                    effect = effects.send(response) if error is None else effects.throw(error)
                except StopIteration as done:
                    return done.value
                response = error = None
                try:
                    response = await self._perform(effect, key)
                except Exception as raised:  # noqa: BLE001 - thrown into the effects
                    error = raised
        finally:
            effects.close()
            self._in_progress -= 1
            if self._suspensions:
                self._schedule_idle_check()

    async def _perform(self, effect: Effect, key: str) -> Any:
        match effect:
            case RunStep():
                return await self._run_step(effect, key)
            case Suspend():
                await self._suspend(effect)
                return None
        try:
            return await self.requests.perform(effect)
        except StaleLease:
            raise Interrupted(Interrupt.LOST) from None

    async def _run_step(self, run: RunStep, key: str) -> Any:
        token = step_key.set(key)
        try:
            if run.timeout is None:
                return await _call(run.function)
            with self.requests.limit_step(run):
                return await _call_with_timeout(run)
        finally:
            step_key.reset(token)

    async def _suspend(self, suspend: Suspend) -> None:
        left = None if suspend.until is None else max(0, suspend.until - self._now()) / 1000
        if left is not None and left * 1000 <= self._short_ms and not suspend.group:
            await asyncio.sleep(left)
            return
        self._suspensions.append(suspend)
        self._in_progress -= 1
        try:
            self._schedule_idle_check()
            await asyncio.sleep(FOREVER_S if left is None else left)
        finally:
            self._in_progress += 1
            self._suspensions = [other for other in self._suspensions if other is not suspend]

    def _schedule_idle_check(self) -> None:
        if self._in_progress == 0:
            loop = asyncio.get_running_loop()
            loop.call_later(QUIET_S, self._unwind_if_idle, self._started)

    def _unwind_if_idle(self, started: int) -> None:
        """Suspend the job if only waits are left and no effect has started since."""
        idle = self._in_progress == 0 and self._started == started and bool(self._suspensions)
        if idle and self.waiting is None and self._task is not None and not self._task.done():
            self._journal.unwind()
            self.waiting = _waiting(self._suspensions)
            self._task.cancel()
