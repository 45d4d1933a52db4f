"""Where handlers run, apart from the loop that claims, heartbeats and settles.

- `AsyncRunner`: every `async def` handler, on one event loop in a thread of its own. A handler
  that blocks this loop holds up the other `async def` handlers and nothing else; a watchdog on the
  worker's own loop notices and names it.
- `ThreadRunner`: every `def` handler, in a thread each.
- `ProcessRunner` (processes/pool.py): handlers declared so, in processes of their own.

A runner is given executions to start, and says when they have ended. What it gets in return is what
it starts in their place: their slots pass from one job to the next without a word to the worker's
loop, which hears of both, the ends and the new starts, in batches (`SlotHandover`).

A thread cannot be killed from outside: a handler that ignores its interruption keeps its thread
until it returns, and its slot is taken until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from coatcheck.model.outcome import Outcome
from coatcheck.worker.attempts.attempt import outcome_of, run_async, run_blocking
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.slots.slots import HandlerSlots

NewLoop = Callable[[], asyncio.AbstractEventLoop]
Ended = list[tuple[Execution, Outcome]]
# How a runner says that attempts have ended; it must start what it gets in return.
Finish = Callable[[Ended], list[Execution]]


class Runner(Protocol):
    """A place where handlers run."""

    def start(self, executions: list[Execution]) -> None:
        """Begin these attempts; each has a slot of its own until it is handed to `Finish`."""
        ...

    def interrupt(self, execution: Execution) -> None:
        """Make an attempt stop that was started; its context has been told already."""
        ...

    def kill(self, execution: Execution) -> bool:
        """End an attempt that did not stop when told to, which is then handed to `Finish` like any
        other; False where that cannot be done.
        """
        ...

    def close(self) -> None:
        """Let go of everything; nothing is started any more."""
        ...


class SlotHandover:
    """Gives slots from one job to the next, and carries what happened from any thread to the
    worker's loop, many at a time: who has ended, and who was begun without its doing.
    """

    def __init__(self, deliver: Callable[[Ended, list[Execution]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._lock = threading.Lock()
        self._ended: Ended = []
        self._begun: list[Execution] = []

    def __call__(self, backlog: HandlerSlots, isolation: str, ended: Ended) -> list[Execution]:
        """Hand outcomes over, and return what starts in their place; from any thread."""
        following = backlog.ended([execution for execution, _ in ended], isolation)
        with self._lock:
            on_its_way = bool(self._ended)
            self._ended += ended
            self._begun += following
        if not on_its_way:  # else that delivery takes these along
            with contextlib.suppress(RuntimeError):  # the worker is gone; its lease will end
                self._loop.call_soon_threadsafe(self._deliver_all)
        return following

    def _deliver_all(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
            begun, self._begun = self._begun, []
        self._deliver(ended, begun)


class AsyncRunner:
    """The event loop of the `async def` handlers."""

    def __init__(self, finish: Finish, new_loop: NewLoop) -> None:
        self._finish = finish
        self._ended: Ended = []
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="coatcheck-handlers", daemon=True)
        self._thread.start()

    def start(self, executions: list[Execution]) -> None:
        """Begin these attempts."""
        self._loop.call_soon_threadsafe(self._start_all, executions)

    def interrupt(self, execution: Execution) -> None:
        """Cancel an attempt: its handler sees CancelledError at its next await."""
        self._loop.call_soon_threadsafe(self._cancel, execution)

    def kill(self, execution: Execution) -> bool:  # noqa: ARG002 - no task can be killed
        """Leave it: a handler that blocks the loop cannot be ended."""
        return False

    def ping(self, answer: Callable[[], Any]) -> None:
        """Have the loop call back; how long that takes tells whether a handler blocks it."""
        self._loop.call_soon_threadsafe(answer)

    def busy_with(self) -> tuple[str, str]:
        """Say which handler holds the loop now, and in which line."""
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._thread.ident or 0)
        where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return ("?" if task is None else task.get_name()), where

    def close(self) -> None:
        """Stop the loop; a handler that blocks it keeps the thread, which dies with the process."""
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
        # What handlers keep open for each other is closed by generators that end with the loop.
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _start_all(self, executions: list[Execution]) -> None:
        for execution in executions:
            name = f"{execution.kind.name} {execution.claim.lease.job_id}"
            execution.task = self._loop.create_task(self._attempt(execution), name=name)

    async def _attempt(self, execution: Execution) -> None:
        execution.begun = True
        outcome = await run_async(execution.kind, execution.context, execution.claim)
        self._hand_over(execution, outcome)

    def _cancel(self, execution: Execution) -> None:
        if execution.task is None:
            return
        execution.task.cancel()
        if not execution.begun:
            # Cancelled before its first step: nothing of it will ever run to say so.
            execution.begun = True
            outcome = outcome_of(asyncio.CancelledError(), execution.kind, execution.claim)
            self._hand_over(execution, outcome)

    def _hand_over(self, execution: Execution, outcome: Outcome) -> None:
        # What ends in one turn of the loop is handed over together, at the end of the turn.
        self._ended.append((execution, outcome))
        if len(self._ended) == 1:
            self._loop.call_soon(self._hand_over_all)

    def _hand_over_all(self) -> None:
        ended, self._ended = self._ended, []
        self._start_all(self._finish(ended))


class ThreadRunner:
    """Threads for the `def` handlers, made as they are needed and used again."""

    def __init__(self, finish: Finish, slots: int) -> None:
        self._finish = finish
        self._most = slots
        self._queue: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    def start(self, executions: list[Execution]) -> None:
        """Begin these attempts, each in an idle thread or a new one.

        With a thread for every slot no more are made: one that is just saying that its handler
        has ended is not idle yet, and will be there for the next.
        """
        for execution in executions:
            if not self._idle.acquire(blocking=False) and self._threads < self._most:
                self._threads += 1
                # Daemons: a handler that never returns must not keep the process from ending.
                threading.Thread(
                    target=self._run, name=f"coatcheck-thread-{self._threads}", daemon=True
                ).start()
            self._queue.put(execution)

    def interrupt(self, execution: Execution) -> None:
        """Do nothing: a thread looks at its context when it next calls it."""

    def kill(self, execution: Execution) -> bool:  # noqa: ARG002 - no thread can be killed
        """Leave it: a thread cannot be ended."""
        return False

    def close(self) -> None:
        """Let the idle threads end."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _run(self) -> None:
        while (execution := self._queue.get()) is not None:
            following = [execution]
            while following:
                [execution] = following
                outcome = run_blocking(execution.kind, execution.context, execution.claim)
                following = self._finish([(execution, outcome)])
            self._idle.release()
