"""Runners: where handlers run, away from the loop that claims, heartbeats and settles.

- `AsyncRunner` runs all `async def` handlers on one event loop in a thread of its own. A handler
  that blocks this loop delays the other `async def` handlers and nothing else. A watchdog on the
  worker's loop notices and logs which handler it is.
- `ThreadRunner` runs each `def` handler in a thread.
- `ProcessRunner` (processes/pool.py) runs handlers with `isolation="process"` in processes.

A runner starts executions, and reports them when they have finished. In return it gets the
executions to start in their slots. Slots thus pass from one job to the next without a round trip
through the worker's loop, which learns of finished and started executions in batches
(`SlotHandover`).

A thread cannot be killed. A handler that ignores its interrupt keeps its thread and its slot until
it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from coatcheck.model.outcome import Outcome
from coatcheck.worker.attempts.attempt import outcome_of, run_async, run_blocking
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.slots.slots import HandlerSlots

log = logging.getLogger(__name__)

# How often the handlers' loop is pinged, and how late its answer may be.
PING_EVERY_S = 1.0
BLOCKED_S = 1.0

NewLoop = Callable[[], asyncio.AbstractEventLoop]
FinishedAttempts = list[tuple[Execution, Outcome]]
# Reports finished attempts. The runner must start the executions that it returns.
OnFinished = Callable[[FinishedAttempts], list[Execution]]


class Runner(Protocol):
    """Runs handlers."""

    def start(self, executions: list[Execution]) -> None:
        """Start attempts. Each holds a slot until it is reported as finished."""
        ...

    def interrupt(self, execution: Execution) -> None:
        """Stop a started attempt. Its context is interrupted already."""
        ...

    def kill(self, execution: Execution) -> bool:
        """Kill an attempt that ignored its interrupt; return False if that is impossible.

        A killed attempt is reported as finished like any other.
        """
        ...

    def close(self) -> None:
        """Release all resources. Nothing is started afterwards."""
        ...


class SlotHandover:
    """Passes slots from finished to waiting attempts, and delivers both to the worker's loop in
    batches.
    """

    def __init__(self, deliver: Callable[[FinishedAttempts, list[Execution]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._lock = threading.Lock()
        self._finished: FinishedAttempts = []
        self._started: list[Execution] = []

    def finish(
        self, slots: HandlerSlots, isolation: str, finished: FinishedAttempts
    ) -> list[Execution]:
        """Deliver finished attempts, and return those that start in their slots. Thread-safe."""
        next_executions = slots.finish([execution for execution, _ in finished], isolation)
        with self._lock:
            is_scheduled = bool(self._finished)
            self._finished += finished
            self._started += next_executions
        if not is_scheduled:  # otherwise the scheduled delivery includes these
            with contextlib.suppress(RuntimeError):  # the worker has stopped; its lease will expire
                self._loop.call_soon_threadsafe(self._deliver_all)
        return next_executions

    def _deliver_all(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, []
            started, self._started = self._started, []
        self._deliver(finished, started)


class AsyncRunner:
    """Runs `async def` handlers on an event loop in a thread of its own."""

    def __init__(self, on_finished: OnFinished, new_loop: NewLoop) -> None:
        self._on_finished = on_finished
        self._finished: FinishedAttempts = []
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="coatcheck-handlers", daemon=True)
        self._thread.start()

    def start(self, executions: list[Execution]) -> None:
        """Start attempts."""
        self._loop.call_soon_threadsafe(self._start_all, executions)

    def interrupt(self, execution: Execution) -> None:
        """Cancel an attempt: its handler sees CancelledError at its next await."""
        self._loop.call_soon_threadsafe(self._cancel, execution)

    def kill(self, execution: Execution) -> bool:  # noqa: ARG002 - no task can be killed
        """Return False: a task that blocks the loop cannot be killed."""
        return False

    def ping(self, answer: Callable[[], Any]) -> None:
        """Have the loop call back. The delay shows whether a handler blocks it."""
        self._loop.call_soon_threadsafe(answer)

    def current_handler(self) -> tuple[str, str]:
        """Return the name of the task that runs now, and the line it is in."""
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._thread.ident or 0)
        where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return ("?" if task is None else task.get_name()), where

    def close(self) -> None:
        """Stop the loop. A handler that blocks it keeps the thread, which dies with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        # Async generators close what handlers share; they end with the loop.
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _start_all(self, executions: list[Execution]) -> None:
        for execution in executions:
            name = f"{execution.kind.name} {execution.claim.lease.job_id}"
            execution.task = self._loop.create_task(self._attempt(execution), name=name)

    async def _attempt(self, execution: Execution) -> None:
        execution.begun = True
        outcome = await run_async(execution.kind, execution.context, execution.claim)
        self._finish(execution, outcome)

    def _cancel(self, execution: Execution) -> None:
        if execution.task is None:
            return
        execution.task.cancel()
        if not execution.begun:
            # Cancelled before it began: its coroutine will never run to report that.
            execution.begun = True
            outcome = outcome_of(asyncio.CancelledError(), execution.kind, execution.claim)
            self._finish(execution, outcome)

    def _finish(self, execution: Execution, outcome: Outcome) -> None:
        # Attempts that finish in one iteration of the loop are reported together.
        self._finished.append((execution, outcome))
        if len(self._finished) == 1:
            self._loop.call_soon(self._finish_all)

    def _finish_all(self) -> None:
        finished, self._finished = self._finished, []
        self._start_all(self._on_finished(finished))


class ThreadRunner:
    """Runs `def` handlers in threads, which are created on demand and reused."""

    def __init__(self, on_finished: OnFinished, slots: int) -> None:
        self._on_finished = on_finished
        self._max_threads = slots
        self._queue: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    def start(self, executions: list[Execution]) -> None:
        """Start attempts, each in an idle thread or a new one.

        There are never more threads than slots. A thread that is just reporting its finished
        handler is not idle yet, and will take the next attempt.
        """
        for execution in executions:
            if not self._idle.acquire(blocking=False) and self._threads < self._max_threads:
                self._threads += 1
                # Daemon threads: a handler that never returns must not keep the process alive.
                threading.Thread(
                    target=self._run, name=f"coatcheck-thread-{self._threads}", daemon=True
                ).start()
            self._queue.put(execution)

    def interrupt(self, execution: Execution) -> None:
        """Do nothing: the handler notices at its next call of `ctx`."""

    def kill(self, execution: Execution) -> bool:  # noqa: ARG002 - no thread can be killed
        """Return False: a thread cannot be killed."""
        return False

    def close(self) -> None:
        """Let the idle threads end."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _run(self) -> None:
        while (execution := self._queue.get()) is not None:
            next_executions = [execution]
            while next_executions:
                [execution] = next_executions
                outcome = run_blocking(execution.kind, execution.context, execution.claim)
                next_executions = self._on_finished([(execution, outcome)])
            self._idle.release()


async def watch_for_blocking(runner: AsyncRunner, is_busy: Callable[[], bool]) -> None:
    """Ping the handlers' loop while jobs run, and log the handler that blocks it."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(PING_EVERY_S)
        if not is_busy():
            continue
        answered = asyncio.Event()
        pinged_at = loop.time()
        runner.ping(lambda answered=answered: loop.call_soon_threadsafe(answered.set))  # type: ignore[misc]  # bound now
        try:
            async with asyncio.timeout(BLOCKED_S):
                await answered.wait()
        except TimeoutError:
            task, where = runner.current_handler()
            kind, _, job_id = task.partition(" ")
            log.error(
                "handler blocks the event loop: use def, or await",
                extra={"kind": kind, "job_id": job_id, "where": where},
            )
            await answered.wait()
            blocked_s = round(loop.time() - pinged_at, 1)
            log.warning(
                "event loop unblocked",
                extra={"kind": kind, "job_id": job_id, "blocked_s": blocked_s},
            )
