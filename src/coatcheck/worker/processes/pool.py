"""The runner of handlers in processes: a pool of them, warm, one for each slot.

They are started with the worker, import every handler, and wait. A job goes to one that is idle;
where none is, because they are still starting, it waits here for the first.

- A process that dies is replaced at once if it had begun a job since it started; jobs have a
  backoff of their own. One that had not is replaced after a pause that doubles with each such
  death, until a job gets through: a module that cannot be imported must not keep a core busy.
- The job of a process that dies has failed with it, if its handler had begun. If not, it goes to
  another process. Where a process dies before it was ever ready, a job that waits fails with it:
  there is something wrong that waiting will not mend, and its own policy says what then.
- An input that is kept apart is read before its job is given to a process, and files that handlers
  leave behind are kept from here: a process knows neither store.
- After so many jobs, or when one ran out of memory or a step of it out of time, a process is told
  to stop and replaced.
- A process whose step is over its limit is killed (wire.py, `limit`), and its job fails for good.

Confined kinds (confined.py) have processes of their own, and so has each of their tenants: such a
process is nobody's until its first job, and from then on runs jobs of that job's tenant alone. If a
job waits and no idle process may run it, the process that has been idle longest is replaced by a
new one. So a tenant that works alone finds its processes warm, as many as there are slots.

All of it happens on one event loop in a thread of its own, so that neither the worker's loop nor
the handlers' is held up, and writing never blocks (wire.py). The thread that starts processes must
live as long as they should (PR_SET_PDEATHSIG), which this one does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import cycle, islice
from typing import Any

from coatcheck.errors import ConfigurationError
from coatcheck.model.handler import reference_of
from coatcheck.model.job import Failure
from coatcheck.model.kind import Kind
from coatcheck.model.outcome import Errored, GaveUp, Outcome
from coatcheck.model.payload import is_reference
from coatcheck.model.size import in_megabytes
from coatcheck.model.text import storable
from coatcheck.settings import Settings
from coatcheck.worker.attempts.attempt import PROCESS_DIED, await_input, outcome_of, retry_delay_ms
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.attempts.failure import LONGEST_MESSAGE
from coatcheck.worker.attempts.interrupts import Interrupted
from coatcheck.worker.attempts.runners import Finish, NewLoop
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.processes.codec import read_question, write_answer
from coatcheck.worker.processes.confined import Workspace
from coatcheck.worker.processes.orphans import OrphanGuard
from coatcheck.worker.processes.process import STOP_S, Process
from coatcheck.worker.processes.wire import (
    WireMessage,
    read_files,
    read_outcome,
    read_report,
)
from coatcheck.worker.steps.effects import STEP_TIMEOUT, ReadInput, step_timeout_message

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
# A process that is not ready by then is given up.
START_S = 60.0
# Beyond what a process has to stop, for those that must be killed.
CLOSE_MARGIN_S = 3.0


class ProcessRunner:
    """Processes for handlers. Its public methods may be called from any thread."""

    def __init__(
        self,
        finish: Finish,
        kinds: Sequence[Kind],
        settings: Settings,
        new_loop: NewLoop,
        slots: int,
        scratch: Scratch,
        warm: int | None = None,
    ) -> None:
        self._finish = finish
        self._reading: dict[Execution, Future[Any]] = {}  # whose input is being read
        for kind in kinds:
            reference_of(kind)  # raises now for a handler that no process could import
        # Those that are confined and those that are not, as far as there are any.
        self._kinds = {
            confined: found
            for confined in (False, True)
            if (found := [kind for kind in kinds if (kind.confinement is not None) is confined])
        }
        self._settings = settings
        self._scratch = scratch
        self._slots = slots
        self._warm = slots if warm is None else warm  # how many are started with the worker
        self._paused: Counter[bool] = Counter()  # processes to be started after a pause
        self._jobs_each = settings.process_jobs
        self._processes: set[Process[Execution]] = set()
        self._busy: dict[Execution, Process[Execution]] = {}
        self._waiting: deque[Execution] = deque()
        self._asking: set[asyncio.Task[Any]] = set()  # what handlers wait for
        self._pause_s = FIRST_PAUSE_S
        self._closing = False
        self._moved = asyncio.Event()
        self._loop = new_loop()
        self._thread = threading.Thread(
            target=self._run,
            name="coatcheck-processes",
            daemon=True,
        )
        self._thread.start()

    def start(self, executions: list[Execution]) -> None:
        """Begin these attempts, as soon as there is a process for each."""
        self._loop.call_soon_threadsafe(self._start_all, executions)

    def interrupt(self, execution: Execution) -> None:
        """Tell the handler to stop."""
        self._loop.call_soon_threadsafe(self._interrupt, execution)

    def kill(self, execution: Execution) -> bool:
        """Kill the process of an attempt, and everything it started."""
        self._loop.call_soon_threadsafe(self._kill, execution)
        return True

    def pids(self) -> list[int]:
        """Return the ids of the processes there are."""
        return [process.pid for process in list(self._processes)]

    def close(self) -> None:
        """End all processes."""
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(timeout=STOP_S + CLOSE_MARGIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=1.0)

    # --- on the pool's loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._guard = OrphanGuard()
        for confined in islice(cycle(self._kinds), self._warm):
            self._loop.call_soon(self._spawn, confined)
        self._loop.run_forever()
        self._loop.close()

    def _spawn(self, confined: bool) -> None:
        if self._closing:
            return
        try:
            folder = self._scratch.new_folder() if confined else None
            workspace = None if folder is None else Workspace.make(folder)
            kinds = self._kinds[confined]
            process = Process(self, self._guard, kinds, self._settings, workspace)
        except (OSError, ConfigurationError) as error:
            why = getattr(error, "strerror", None) or str(error)
            log.error("a process could not be started", extra={"why": why})
            self._fail_first(confined, f"no process could be started for it: {why}")
            self._spawn_after_pause(confined)
            return
        self._processes.add(process)
        self._loop.call_later(START_S, self._give_up_starting, process)

    def _spawn_after_pause(self, confined: bool) -> None:
        self._paused[confined] += 1
        self._loop.call_later(self._pause_s, self._spawn_paused, confined)
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)

    def _spawn_paused(self, confined: bool) -> None:
        self._paused[confined] -= 1
        self._spawn(confined)

    def _give_up_starting(self, process: Process[Execution]) -> None:
        if not process.ready:
            process.why_broken = f"it was not ready after {START_S:g} s"
            process.kill()

    def _start_all(self, executions: list[Execution]) -> None:
        for execution in executions:
            if is_reference(execution.claim.input):
                self._read_input(execution)
            else:
                self._waiting.append(execution)
        self._give_next()

    def _read_input(self, execution: Execution) -> None:
        reading = execution.context.port.ask(ReadInput())
        self._reading[execution] = reading
        self._when_done(reading, lambda: self._input_read(execution, reading))

    def _input_read(self, execution: Execution, reading: Future[str]) -> None:
        if self._reading.pop(execution, None) is None:
            return  # it was interrupted meanwhile
        try:
            text = await_input(reading)
        except Exception as error:  # noqa: BLE001 - it is what became of the attempt
            self._hand_over(execution, outcome_of(error, execution.kind, execution.claim))
            return
        execution.claim = execution.claim._replace(input=text)
        self._waiting.append(execution)
        self._give_next()

    def _when_done(self, future: Future[Any], call: Callable[[], None]) -> None:
        def tell(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the pool is gone
                self._loop.call_soon_threadsafe(call)

        future.add_done_callback(tell)

    def _give_next(self) -> None:
        for execution in list(self._waiting):
            process = self._process_for(execution)
            if process is None:
                continue
            self._waiting.remove(execution)
            self._busy[execution] = process
            execution.inbox = None if process.workspace is None else process.workspace.inbox
            process.give(execution, execution.claim)
            if execution.interrupted is not None:
                self._tell(process, execution)
        if self._waiting:
            self._start_missing()

    def _process_for(self, execution: Execution) -> Process[Execution] | None:
        """Return an idle process that may run a job; one that its tenant has had before, if any."""
        confined, found = _is_confined(execution), None
        for process in self._processes:
            if process.idle and process.confined is confined and process.may_run(execution.claim):
                if process.tenant is not None or not confined:
                    return process
                found = process
        return found

    def _start_missing(self) -> None:
        """Start processes for jobs that wait and that none of those that are starting will run."""
        for confined in self._kinds:
            missing = sum(_is_confined(execution) is confined for execution in self._waiting)
            missing -= sum(
                process.starting and process.confined is confined for process in self._processes
            )
            for _ in range(missing - self._paused[confined]):
                if self._make_room():
                    self._spawn(confined)

    def _make_room(self) -> bool:
        """See that another process may be started, at the cost of the one idle for longest."""
        kept = [process for process in self._processes if not process.retired]
        if len(kept) + self._paused.total() < self._slots:
            return True
        idle = [process for process in kept if process.idle]
        if idle:
            min(idle, key=lambda process: process.idle_since).retire()
        return bool(idle)

    def _interrupt(self, execution: Execution) -> None:
        if execution in self._waiting:
            self._waiting.remove(execution)
            self._hand_over(execution, outcome_of(Interrupted(), execution.kind, execution.claim))
        elif (reading := self._reading.pop(execution, None)) is not None:
            reading.cancel()
            self._hand_over(execution, outcome_of(Interrupted(), execution.kind, execution.claim))
        elif (process := self._busy.get(execution)) is not None:
            self._tell(process, execution)

    def _tell(self, process: Process[Execution], execution: Execution) -> None:
        why = execution.interrupted
        process.send({"type": "interrupt", "number": process.number, "why": why})

    def _kill(self, execution: Execution) -> None:
        if (process := self._busy.get(execution)) is not None:
            process.kill()

    def heard(self, process: Process[Execution], message: WireMessage) -> None:
        """A process has said something."""
        header = message.header
        match message.type:
            case "ready":
                process.ready = True
                process.idle_since = self._loop.time()
                self._give_next()
                return
            case "broken":
                process.why_broken = str(header["message"])
                return
        execution = process.attempt
        if execution is None or header["number"] != process.number:
            return
        if (report := read_report(header.get("report"))) is not None:
            execution.context.repeat(report)
        match message.type:
            case "begun":
                process.begun += 1
            case "piece":
                process.gather(header["id"], message.body)
            case "ask":
                self._ask(process, execution, message)
            case "limit":
                process.limit(header["id"], header["limit"])
            case "done":
                self._done(process, execution, message)

    def _done(
        self, process: Process[Execution], execution: Execution, message: WireMessage
    ) -> None:
        header = message.header
        outcome = read_outcome(header, message.body)
        now = execution.clock.now()
        execution.context.leave(read_files(header["files"], execution.claim.lease, now))
        self._pause_s = FIRST_PAUSE_S
        process.lift_limits()
        process.attempt = None
        process.idle_since = self._loop.time()
        del self._busy[execution]
        if not header["fit"] or process.begun == self._jobs_each:
            process.retire()
            self._spawn(process.confined)
        self._hand_over(execution, outcome)

    def _ask(self, process: Process[Execution], execution: Execution, message: WireMessage) -> None:
        number, asked = process.number, message.header["id"]
        file = process.take_file(asked)
        question = read_question(message.header["question"], message.body, file)
        # From here, not by way of the worker's loop: each step of a handler waits for its answer.
        asking = self._loop.create_task(execution.context.port.inquire(question))
        self._asking.add(asking)

        def answer(_: asyncio.Task[Any]) -> None:
            self._asking.discard(asking)
            file.close()
            if process.number == number and not asking.cancelled():
                header = {"type": "answer", "number": number, "id": asked}
                process.send(header, write_answer(question, asking))

        asking.add_done_callback(answer)

    def gone(self, process: Process[Execution]) -> None:
        """A process has ended."""
        self._processes.discard(process)
        self._moved.set()
        execution, process.attempt = process.attempt, None
        if execution is not None:
            del self._busy[execution]
        if process.retired or self._closing:
            if execution is not None:
                self._hand_over(execution, _died(execution, process))
            return
        if process.begun:
            self._spawn(process.confined)
        else:
            self._spawn_after_pause(process.confined)
        if execution is None:
            log.error("a process ended that had no job", extra=_fields(process))
            if not process.ready:
                self._fail_first(
                    process.confined,
                    f"the process for it {process.how_it_ended()} before it was ready"
                    + (f": {process.why_broken}" if process.why_broken else ""),
                )
        elif process.begun < process.number:
            log.error("a process ended before it began its job", extra=_fields(process))
            if execution.interrupted is None:
                self._waiting.appendleft(execution)
                self._give_next()
            else:
                self._hand_over(execution, _died(execution, process))
        else:
            fields = {**execution.fields(), **_fields(process)}
            log.error("a process ended in the middle of its job", extra=fields)
            self._hand_over(execution, _died(execution, process))

    def _fail_first(self, confined: bool, why: str) -> None:
        """Fail the job that has waited longest for such a process, if any does."""
        waiting = (each for each in self._waiting if _is_confined(each) is confined)
        if (execution := next(waiting, None)) is not None:
            self._waiting.remove(execution)
            self._hand_over(execution, _failed(execution, why))

    def _hand_over(self, execution: Execution, outcome: Outcome) -> None:
        self._start_all(self._finish([(execution, outcome)]))

    async def _end(self) -> None:
        self._closing = True
        for process in list(self._processes):
            process.retire()
            if process.attempt is not None or not process.ready:
                process.kill()
        while self._processes:
            self._moved.clear()
            await self._moved.wait()
        for asking in self._asking:
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        self._guard.close()


def _is_confined(execution: Execution) -> bool:
    return execution.kind.confinement is not None


def _died(execution: Execution, process: Process[Execution]) -> Outcome:
    if process.overdue is not None:
        return GaveUp(Failure(STEP_TIMEOUT, storable(step_timeout_message(*process.overdue))))
    words = f"the process that ran the handler {process.how_it_ended()}"
    if execution.kind.memory is not None:
        words += f"; its memory was limited to {in_megabytes(execution.kind.memory)} more"
    return _failed(execution, words)


def _failed(execution: Execution, why: str) -> Outcome:
    error = Failure(PROCESS_DIED, storable(why[:LONGEST_MESSAGE]), retryable=True)
    return Errored(error, retry_delay_ms(execution.kind, execution.claim))


def _fields(process: Process[Execution]) -> dict[str, object]:
    return {"child_pid": process.pid, "how": process.how_it_ended()}
