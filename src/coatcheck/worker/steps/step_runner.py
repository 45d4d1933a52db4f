"""Doing what the operations of a handler ask for: on a loop, or in a thread.

Both kinds of host know how to run a step's body, how to ask the worker, and how to wait. To wait
for long is to give the job up: the handler is unwound, and its outcome is `Waiting`.

- In a thread there is one thing at a time, so the handler is unwound at once, by an exception.
- On a loop others may be under way beside the one that waits. The handler is unwound, by cancelling
  its task, when all that is left of it is waiting: no operation is under way, and none has begun
  for a moment. Until then a wait that is over goes on where it is.

On the way out, in a `finally` or in an `except` that catches everything, the handler finds that
nothing it says or does through `ctx` happens: it has not come that far.
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
    Operation,
    Question,
    RunStep,
    Suspend,
    step_timeout_message,
)
from coatcheck.worker.steps.journal import Journal
from coatcheck.worker.steps.step_function import StepFunction

# What is waited for no longer than this is not worth giving the job up for.
SHORT_MS = 1_000
# How long a handler on a loop has to come up with something else to do before it is unwound.
QUIET_S = 0.002
FOREVER_S = 10 * 365 * 86_400.0

# The step whose body runs here.
step_key: contextvars.ContextVar[str] = contextvars.ContextVar("coatcheck_step_key")


class WorkerRequests(ABC):
    """A handler's way to its worker, from any thread."""

    __slots__ = ()

    @abstractmethod
    def ask(self, question: Question) -> Future[Any]:
        """Ask; the answer may be StaleLease: the job is no longer this handler's."""

    async def inquire(self, question: Question) -> Any:
        """Do the same on a loop."""
        return await asyncio.wrap_future(self.ask(question))

    @contextlib.contextmanager
    def limited(self, run: RunStep) -> Iterator[None]:  # noqa: ARG002 - for those that have a process
        """Have the worker watch how long the body of a fatal step takes."""
        yield


class _Closed(WorkerRequests):
    """The way to a worker that has done with the attempt."""

    def ask(self, question: Question) -> Future[Any]:  # noqa: ARG002 - whatever it is
        """Refuse."""
        refused: Future[Any] = Future()
        refused.set_exception(StaleLease("the attempt has ended"))
        return refused


CLOSED = _Closed()


def _waiting(holds: list[Suspend]) -> Waiting:
    times = [hold.until for hold in holds if hold.until is not None]
    groups = tuple(hold.group for hold in holds if hold.group)
    return Waiting(min(times, default=None), groups)


class BlockingStepRunner:
    """Does what the operations of a `def` handler ask for, in the handler's thread."""

    def __init__(
        self,
        port: WorkerRequests,
        journal: Journal,
        now: Callable[[], int],
        short_ms: int,
        thread: object,
    ) -> None:
        self.port: WorkerRequests = port
        self._journal = journal
        self._now = now
        self._short_ms = short_ms
        self.own = thread  # the handler's: the caller that it is itself
        self._told = threading.Event()
        self._why: Interrupt | None = None
        self.waiting: Waiting | None = None

    def interrupt(self, why: Interrupt) -> None:
        """Have the handler stop at its next operation."""
        self._why = why
        self._told.set()

    def caller(self) -> object:
        """Return what tells who came to a step from others in the same handler."""
        self.check()
        return threading.get_ident()

    def check(self) -> None:
        """Raise if the handler should stop."""
        if self._why is not None:
            raise Interrupted(self._why)
        if self.waiting is not None:
            raise HandlerSuspended

    def drive(self, operation: Operation, key: str) -> Any:
        """Do an operation from beginning to end."""
        self.check()
        answer: Any = None
        error: Exception | None = None
        with contextlib.closing(operation):
            while True:
                try:
                    wanted = operation.send(answer) if error is None else operation.throw(error)
                except StopIteration as done:
                    return done.value
                answer = error = None
                try:
                    answer = self._perform(wanted, key)
                except Exception as raised:  # noqa: BLE001 - it is the operation's to deal with
                    error = raised

    def _perform(self, wanted: Any, key: str) -> Any:
        match wanted:
            case RunStep():
                return self._run(wanted, key)
            case Suspend():
                self._hold(wanted)
                return None
        return self.ask(wanted)

    def ask(self, question: Question) -> Any:
        """Ask the worker."""
        try:
            return self.port.ask(question).result()
        except StaleLease:
            raise Interrupted(Interrupt.LOST) from None

    def _run(self, run: RunStep, key: str) -> Any:
        body = run.body
        token = step_key.set(key)
        try:
            if run.timeout is None:
                if body.is_async:
                    return asyncio.run(body.function(*body.arguments))
                return body.function(*body.arguments)
            with self.port.limited(run):
                return self._run_in_time(run)
        finally:
            step_key.reset(token)

    def _run_in_time(self, run: RunStep) -> Any:
        body, context = run.body, contextvars.copy_context()
        done: Future[Any] = Future()

        def call() -> None:
            try:
                if body.is_async:
                    value = asyncio.run(body.function(*body.arguments))
                else:
                    value = body.function(*body.arguments)
                done.set_result(value)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                done.set_exception(error)

        threading.Thread(
            target=context.run, args=(call,), name="coatcheck-step", daemon=True
        ).start()
        try:
            return done.result(run.timeout)
        except TimeoutError:
            if done.done():
                raise
            raise _out_of_time(run) from None

    def _hold(self, hold: Suspend) -> None:
        if hold.until is not None:
            left = hold.until - self._now()
            if left <= self._short_ms and not hold.group:
                self._told.wait(max(0, left) / 1000)
                self.check()
                return
        self._journal.unwind()
        self.waiting = _waiting([hold])
        raise HandlerSuspended


async def _called(body: StepFunction) -> Any:
    if body.is_async:
        return await body.function(*body.arguments)
    return await asyncio.to_thread(body.function, *body.arguments)


async def _called_in_time(run: RunStep) -> Any:
    limit = asyncio.timeout(run.timeout)
    try:
        async with limit:
            return await _called(run.body)
    except TimeoutError:
        if not limit.expired():
            raise
        raise _out_of_time(run) from None


def _out_of_time(run: RunStep) -> Exception:
    seconds = run.timeout or 0.0
    if run.fatal:
        return Fail(STEP_TIMEOUT, step_timeout_message(run.body.name, seconds))
    return TimeoutError(f"it took longer than {seconds:g} s")


class AsyncStepRunner:
    """Does what the operations of an `async def` handler ask for, on the handler's loop."""

    def __init__(
        self,
        port: WorkerRequests,
        journal: Journal,
        now: Callable[[], int],
        short_ms: int,
        task: asyncio.Task[Any] | None,
    ) -> None:
        self.port: WorkerRequests = port
        self._journal = journal
        self._now = now
        self._short_ms = short_ms
        self.own = self._task = task  # the handler's: the caller that it is itself
        self._in_progress = 0
        self._begun = 0
        self._holds: list[Suspend] = []
        self.waiting: Waiting | None = None

    def caller(self) -> object:
        """Return what tells who came to a step from others in the same handler."""
        if self.waiting is not None:  # on the way out, in a `finally`
            raise asyncio.CancelledError
        return asyncio.current_task()

    def interrupt(self, why: Interrupt) -> None:
        """Do nothing: the handler's task is cancelled."""

    async def drive(self, operation: Operation, key: str) -> Any:
        """Do an operation from beginning to end."""
        self._in_progress += 1
        self._begun += 1
        answer: Any = None
        error: Exception | None = None
        try:
            while True:
                try:
                    wanted = operation.send(answer) if error is None else operation.throw(error)
                except StopIteration as done:
                    return done.value
                answer = error = None
                try:
                    answer = await self._perform(wanted, key)
                except Exception as raised:  # noqa: BLE001 - it is the operation's to deal with
                    error = raised
        finally:
            operation.close()
            self._in_progress -= 1
            if self._holds:
                self._look_later()

    async def _perform(self, wanted: Any, key: str) -> Any:
        match wanted:
            case RunStep():
                return await self._run(wanted, key)
            case Suspend():
                await self._hold(wanted)
                return None
        return await self.ask(wanted)

    async def ask(self, question: Question) -> Any:
        """Ask the worker."""
        try:
            return await self.port.inquire(question)
        except StaleLease:
            raise Interrupted(Interrupt.LOST) from None

    async def _run(self, run: RunStep, key: str) -> Any:
        token = step_key.set(key)
        try:
            if run.timeout is None:
                return await _called(run.body)
            with self.port.limited(run):
                return await _called_in_time(run)
        finally:
            step_key.reset(token)

    async def _hold(self, hold: Suspend) -> None:
        left = None if hold.until is None else max(0, hold.until - self._now()) / 1000
        if left is not None and left * 1000 <= self._short_ms and not hold.group:
            await asyncio.sleep(left)
            return
        self._holds.append(hold)
        self._in_progress -= 1
        try:
            self._look_later()
            await asyncio.sleep(FOREVER_S if left is None else left)
        finally:
            self._in_progress += 1
            self._holds = [other for other in self._holds if other is not hold]

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._in_progress == 0:
            loop.call_later(QUIET_S, self._look, self._begun)

    def _look(self, begun: int) -> None:
        """Give the job up if nothing has begun since, and all that is left is waiting."""
        idle = self._in_progress == 0 and self._begun == begun and bool(self._holds)
        if idle and self.waiting is None and self._task is not None and not self._task.done():
            self._journal.unwind()
            self.waiting = _waiting(self._holds)
            self._task.cancel()
