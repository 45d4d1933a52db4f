"""The runner of handlers in processes: a pool of warm processes, one for each slot.

The processes start with the worker, import every handler, and wait. A job goes to an idle process.
If none is idle because they are still starting, the job waits for the first.

- A process that dies is replaced at once if it had started a job; jobs have their own backoff.
  Otherwise it is replaced after a pause that doubles with each such death, until a job succeeds in
  starting: a module that cannot be imported must not keep a core busy.
- If a process dies after the handler started, its job has failed. If it dies before, the job goes
  to another process. If a process dies before it was ready, one waiting job fails with it: waiting
  will not fix the cause, and the job's own retry policy decides.
- An offloaded input is read before its job is assigned to a process, and artifacts are stored from
  here: a process has no access to either store.
- After a number of jobs, after running out of memory, or after a step timeout, a process is told to
  stop and is replaced.
- A process whose step exceeds its limit is killed (wire.py, `limit`), and its job fails for good.

Confined kinds (confined.py) have separate processes, and so has each of their tenants. Such a
process belongs to nobody until its first job, and from then on runs jobs of that job's tenant only.
If a job waits and no idle process may run it, the process that has been idle longest is replaced.
So a tenant that works alone finds as many warm processes as there are slots.

All of this runs on one event loop in a thread of its own, so that it blocks neither the worker's
loop nor the handlers', and writing never blocks (wire.py). The thread that starts processes must
live as long as they do (PR_SET_PDEATHSIG); this one does.
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

from coatcheck.clock import Clock
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
from coatcheck.worker.attempts.runners import NewLoop, OnFinished
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.processes.codec import read_request, write_response
from coatcheck.worker.processes.confined import Workspace
from coatcheck.worker.processes.orphans import OrphanGuard
from coatcheck.worker.processes.process import STOP_S, Process
from coatcheck.worker.processes.wire import (
    WireMessage,
    read_files,
    read_outcome,
    read_report,
)
from coatcheck.worker.steps.effects import STEP_TIMEOUT, step_timeout_message

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
# A process that is not ready by then is killed.
START_S = 60.0
# Added to the time a process has to stop, for those that must be killed.
CLOSE_MARGIN_S = 3.0


class ProcessRunner:
    """Runs handlers in processes. Its public methods are thread-safe."""

    def __init__(
        self,
        on_finished: OnFinished,
        kinds: Sequence[Kind],
        settings: Settings,
        clock: Clock,
        new_loop: NewLoop,
        slots: int,
        scratch: Scratch,
        warm: int | None = None,
    ) -> None:
        self._on_finished = on_finished
        self._reading: dict[Execution, Future[Any]] = {}  # offloaded inputs that are being read
        for kind in kinds:
            reference_of(kind)  # raises now if no process could import the handler
        # Confined and other kinds, as far as there are any.
        self._kinds = {
            confined: found
            for confined in (False, True)
            if (found := [kind for kind in kinds if (kind.confinement is not None) is confined])
        }
        self._settings = settings
        self._clock = clock
        self._scratch = scratch
        self._slots = slots
        self._warm = slots if warm is None else warm  # how many processes start with the worker
        self._paused: Counter[bool] = Counter()  # processes to start after a pause, by `confined`
        self._max_jobs = settings.process_jobs
        self._processes: set[Process[Execution]] = set()
        self._busy: dict[Execution, Process[Execution]] = {}
        self._waiting: deque[Execution] = deque()
        self._requests: set[asyncio.Task[Any]] = set()  # requests in progress
        self._pause_s = FIRST_PAUSE_S
        self._warm_started = False
        self._closing = False
        self._process_ended = asyncio.Event()
        self._loop = new_loop()
        self._thread = threading.Thread(
            target=self._run,
            name="coatcheck-processes",
            daemon=True,
        )
        self._thread.start()

    def start(self, executions: list[Execution]) -> None:
        """Start attempts, as soon as there is a process for each."""
        self._loop.call_soon_threadsafe(self._start_all, executions)

    def interrupt(self, execution: Execution) -> None:
        """Interrupt a handler."""
        self._loop.call_soon_threadsafe(self._interrupt, execution)

    def kill(self, execution: Execution) -> bool:
        """Kill the process of an attempt, and every program it started."""
        self._loop.call_soon_threadsafe(self._kill, execution)
        return True

    def pids(self) -> list[int]:
        """Return the ids of the current processes."""
        return [process.pid for process in list(self._processes)]

    def close(self) -> None:
        """Stop all processes."""
        ending = asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(timeout=STOP_S + CLOSE_MARGIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=1.0)

    # --- on the pool's loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._guard = OrphanGuard()
        self._loop.call_soon(self._start_warm)
        self._loop.run_forever()
        self._loop.close()

    def _start_warm(self) -> None:
        for confined in islice(cycle(self._kinds), self._warm):
            self._spawn(confined)
        self._warm_started = True
        self._assign_waiting()

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
            log.error("process start failed", extra={"why": why})
            self._fail_first_waiting(confined, f"no process could be started for the job: {why}")
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
            process.start_error = f"not ready after {START_S:g} s"
            process.kill()

    def _start_all(self, executions: list[Execution]) -> None:
        for execution in executions:
            if is_reference(execution.claim.input):
                self._read_input(execution)
            else:
                self._waiting.append(execution)
        self._assign_waiting()

    def _read_input(self, execution: Execution) -> None:
        reading = execution.context.read_input()
        self._reading[execution] = reading
        self._call_when_done(reading, lambda: self._use_input(execution, reading))

    def _use_input(self, execution: Execution, reading: Future[str]) -> None:
        if self._reading.pop(execution, None) is None:
            return  # it was interrupted in the meantime
        try:
            text = await_input(reading)
        except Exception as error:  # noqa: BLE001 - it is what became of the attempt
            self._report_finished(execution, outcome_of(error, execution.kind, execution.claim))
            return
        execution.set_input(text)
        self._waiting.append(execution)
        self._assign_waiting()

    def _call_when_done(self, future: Future[Any], call: Callable[[], None]) -> None:
        def notify(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the pool has closed
                self._loop.call_soon_threadsafe(call)

        future.add_done_callback(notify)

    def _assign_waiting(self) -> None:
        for execution in list(self._waiting):
            process = self._process_for(execution)
            if process is None:
                continue
            self._waiting.remove(execution)
            self._busy[execution] = process
            execution.requests.inbox = (
                None if process.workspace is None else process.workspace.inbox
            )
            process.assign(execution, execution.claim)
            if execution.interrupted is not None:
                self._send_interrupt(process, execution)
        # A job that comes before the warm processes must not start another beside them.
        if self._waiting and self._warm_started:
            self._start_missing()

    def _process_for(self, execution: Execution) -> Process[Execution] | None:
        """Return an idle process that may run a job, preferably one that its tenant has used
        before.
        """
        confined, found = _is_confined(execution), None
        for process in self._processes:
            if process.idle and process.confined is confined and process.may_run(execution.claim):
                if process.tenant is not None or not confined:
                    return process
                found = process
        return found

    def _start_missing(self) -> None:
        """Start processes for waiting jobs that no starting process will run."""
        for confined in self._kinds:
            missing = sum(_is_confined(execution) is confined for execution in self._waiting)
            missing -= sum(
                process.starting and process.confined is confined for process in self._processes
            )
            for _ in range(missing - self._paused[confined]):
                if self._free_process_slot():
                    self._spawn(confined)

    def _free_process_slot(self) -> bool:
        """Make room for another process, by retiring the one that has been idle longest if
        necessary.
        """
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
            self._report_finished(
                execution, outcome_of(Interrupted(), execution.kind, execution.claim)
            )
        elif (reading := self._reading.pop(execution, None)) is not None:
            reading.cancel()
            self._report_finished(
                execution, outcome_of(Interrupted(), execution.kind, execution.claim)
            )
        elif (process := self._busy.get(execution)) is not None:
            self._send_interrupt(process, execution)

    def _send_interrupt(self, process: Process[Execution], execution: Execution) -> None:
        why = execution.interrupted
        process.send({"type": "interrupt", "number": process.number, "why": why})

    def _kill(self, execution: Execution) -> None:
        if (process := self._busy.get(execution)) is not None:
            process.kill()

    def on_message(self, process: Process[Execution], message: WireMessage) -> None:
        """Handle a message from a process."""
        header = message.header
        match message.type:
            case "ready":
                process.ready = True
                process.idle_since = self._loop.time()
                self._assign_waiting()
                return
            case "broken":
                process.start_error = str(header["message"])
                return
        execution = process.attempt
        if execution is None or header["number"] != process.number:
            return
        if (report := read_report(header.get("report"))) is not None:
            execution.context.merge_report(report)
        match message.type:
            case "started":
                process.started_jobs += 1
            case "chunk":
                process.add_chunk(header["id"], message.body)
            case "request":
                self._perform_request(process, execution, message)
            case "limit":
                process.limit(header["id"], header["limit"])
            case "done":
                self._handle_done(process, execution, message)

    def _handle_done(
        self, process: Process[Execution], execution: Execution, message: WireMessage
    ) -> None:
        header = message.header
        outcome = read_outcome(header, message.body)
        now = self._clock.now()
        execution.context.add_files(read_files(header["files"], execution.claim.lease, now))
        self._pause_s = FIRST_PAUSE_S
        process.lift_limits()
        process.attempt = None
        process.idle_since = self._loop.time()
        del self._busy[execution]
        if not header["fit"] or process.started_jobs == self._max_jobs:
            process.retire()
            self._spawn(process.confined)
        self._report_finished(execution, outcome)

    def _perform_request(
        self, process: Process[Execution], execution: Execution, message: WireMessage
    ) -> None:
        number, request_id = process.number, message.header["id"]
        file = process.take_file(request_id)
        request = read_request(message.header["request"], message.body, file)
        # Performed from this loop, without the worker's: each step of a handler waits for it.
        performing = self._loop.create_task(execution.context.requests.perform(request))
        self._requests.add(performing)

        def respond(_: asyncio.Task[Any]) -> None:
            self._requests.discard(performing)
            file.close()
            if process.number == number and not performing.cancelled():
                header = {"type": "response", "number": number, "id": request_id}
                process.send(header, write_response(request, performing))

        performing.add_done_callback(respond)

    def on_ended(self, process: Process[Execution]) -> None:
        """Replace a process that has ended, and settle its attempt."""
        self._processes.discard(process)
        self._process_ended.set()
        execution, process.attempt = process.attempt, None
        if execution is not None:
            del self._busy[execution]
        if process.retired or self._closing:
            if execution is not None:
                self._report_finished(execution, _death_outcome(execution, process))
            return
        if process.started_jobs:
            self._spawn(process.confined)
        else:
            self._spawn_after_pause(process.confined)
        if execution is None:
            log.error("idle process ended", extra=_fields(process))
            if not process.ready:
                self._fail_first_waiting(
                    process.confined,
                    f"the process for the job {process.describe_exit()} before it was ready"
                    + (f": {process.start_error}" if process.start_error else ""),
                )
        elif process.started_jobs < process.number:
            log.error("process ended before its job started", extra=_fields(process))
            if execution.interrupted is None:
                self._waiting.appendleft(execution)
                self._assign_waiting()
            else:
                self._report_finished(execution, _death_outcome(execution, process))
        else:
            fields = {**execution.log_fields(), **_fields(process)}
            log.error("process ended during its job", extra=fields)
            self._report_finished(execution, _death_outcome(execution, process))

    def _fail_first_waiting(self, confined: bool, why: str) -> None:
        """Fail the job that has waited longest for such a process, if there is one."""
        waiting = (each for each in self._waiting if _is_confined(each) is confined)
        if (execution := next(waiting, None)) is not None:
            self._waiting.remove(execution)
            self._report_finished(execution, _process_failure(execution, why))

    def _report_finished(self, execution: Execution, outcome: Outcome) -> None:
        self._start_all(self._on_finished([(execution, outcome)]))

    async def _stop_all(self) -> None:
        self._closing = True
        for process in list(self._processes):
            process.retire()
            if process.attempt is not None or not process.ready:
                process.kill()
        while self._processes:
            self._process_ended.clear()
            await self._process_ended.wait()
        for performing in self._requests:
            performing.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        self._guard.close()


def _is_confined(execution: Execution) -> bool:
    return execution.kind.confinement is not None


def _death_outcome(execution: Execution, process: Process[Execution]) -> Outcome:
    if process.overdue is not None:
        return GaveUp(Failure(STEP_TIMEOUT, storable(step_timeout_message(*process.overdue))))
    message = f"the process that ran the handler {process.describe_exit()}"
    if execution.kind.memory is not None:
        message += f"; its memory was limited to {in_megabytes(execution.kind.memory)} more"
    return _process_failure(execution, message)


def _process_failure(execution: Execution, why: str) -> Outcome:
    error = Failure(PROCESS_DIED, storable(why[:LONGEST_MESSAGE]), retryable=True)
    return Errored(error, retry_delay_ms(execution.kind, execution.claim))


def _fields(process: Process[Execution]) -> dict[str, object]:
    return {"child_pid": process.pid, "how": process.describe_exit()}
