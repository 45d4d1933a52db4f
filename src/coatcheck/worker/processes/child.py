"""The process that runs handlers: its side of the protocol (wire.py).

Handlers run in the main thread, one after the other. A `def` is called there, an `async def` runs
there on a loop that is kept from job to job. A second thread reads from the socket, and a third
writes reports. An idle process never wakes up.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import io
import logging
import queue
import resource
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from coatcheck.clock import SystemClock
from coatcheck.logs import configure_logging, correlation_id
from coatcheck.model.handler import HandlerReference, find, is_async, signature_of
from coatcheck.model.kind import Backoff, Kind
from coatcheck.model.outcome import Errored, GaveUp, Outcome
from coatcheck.sandbox.lockdown import lock_down
from coatcheck.settings import Settings
from coatcheck.worker.attempts.attempt import OUT_OF_MEMORY, run_async, run_blocking
from coatcheck.worker.attempts.interrupts import Interrupt
from coatcheck.worker.processes.codec import WireRequests
from coatcheck.worker.processes.memory_limit import with_limit
from coatcheck.worker.processes.orphans import die_with_parent, kill_own_group
from coatcheck.worker.processes.wire import (
    CHUNK,
    REPORT_EVERY_S,
    Splitter,
    WireMessage,
    file_fields,
    frame,
    outcome_fields,
    read_claim,
    report_fields,
)
from coatcheck.worker.steps.context import Context
from coatcheck.worker.steps.effects import STEP_TIMEOUT

log = logging.getLogger(__name__)


def main(descriptor: int) -> None:
    """Run handlers until told to stop."""
    wire = Wire(socket.socket(fileno=descriptor))
    hello = wire.read()
    sys.path[:] = hello.header["path"]
    configure_logging(Settings(**hello.header["logging"]))
    if (confinement := hello.header["confinement"]) is not None:
        _confine(wire, **confinement)
    die_with_parent(hello.header["parent"])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    try:
        kinds = {kind["name"]: _kind(**kind) for kind in hello.header["kinds"]}
    except BaseException as error:
        log.error("handler import failed", exc_info=error)
        wire.send({"type": "broken", "message": f"{type(error).__name__}: {error}"})
        raise SystemExit(1) from None
    HandlerProcess(wire, kinds).run()


def _confine(
    wire: Wire,
    locked: bool,
    read: list[str],
    listed: list[str],
    write: list[str],
    data_bytes: int | None,
) -> None:
    """Lock this process down before it imports a handler. It must not have a second thread yet."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if locked:
            lock_down(map(Path, read), map(Path, write), map(Path, listed))
        if data_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))
    except (OSError, ValueError) as error:
        log.error("process confinement failed", extra={"why": str(error)})
        wire.send({"type": "broken", "message": f"confinement failed: {error}"})
        raise SystemExit(1) from None


def _kind(
    name: str, module: str, handler: str, memory: int | None, backoff: tuple[int, int]
) -> Kind:
    found: Any = find(HandlerReference(module, handler), importlib.import_module(module))
    takes_input, input_type, result_type = signature_of(name, found)
    return Kind(
        name=name,
        handler=with_limit(found, memory),
        takes_input=takes_input,
        isolation="process",
        input_type=input_type,
        result_type=result_type,
        backoff=Backoff(*backoff),
        memory=memory,
    )


class Wire:
    """The socket to the worker. Any thread may send; one thread reads."""

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)  # by programs that a handler starts
        self._connection = connection
        self._splitter = Splitter()
        self._read: list[WireMessage] = []
        self.lock = threading.Lock()  # held from taking a report until its frame is sent

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a message."""
        with self.lock:
            self.send_locked(header, body)

    def send_locked(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a message. The caller holds the lock."""
        self._connection.sendall(frame(header, body))

    def read(self) -> WireMessage:
        """Wait for the next message. At the end of the stream, kill this process and its group."""
        while not self._read:
            try:
                data = self._connection.recv(CHUNK)
            except OSError:
                data = b""
            if not data:
                kill_own_group()
            self._read = list(self._splitter.feed(data))
        return self._read.pop(0)


class HandlerProcess:
    """Runs one job after the other."""

    def __init__(self, wire: Wire, kinds: dict[str, Kind]) -> None:
        self._wire = wire
        self._kinds = kinds
        self._jobs: queue.SimpleQueue[WireMessage | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._number = 0  # of the current attempt
        self._context: Context | None = None  # of the current attempt
        self._requests: WireRequests | None = None  # of the current attempt
        self._task: asyncio.Task[Outcome] | None = None
        self._early_interrupts: dict[int, Interrupt] = {}  # of attempts that have not started
        self._report_ready = threading.Event()
        self._loop = asyncio.Runner()

    def run(self) -> None:
        """Report ready, and run jobs until told to stop."""
        for target in (self._read_all, self._report_all):
            threading.Thread(
                target=target, name=f"coatcheck-{target.__name__}", daemon=True
            ).start()
        self._wire.send({"type": "ready"})
        while (message := self._jobs.get()) is not None:
            self._attempt(message)
        self._loop.close()

    def _read_all(self) -> None:
        while True:
            message = self._wire.read()
            match message.type:
                case "job":
                    self._jobs.put(message)
                case "response":
                    self._receive_response(message)
                case "interrupt":
                    self._interrupt(message.header["number"], Interrupt(message.header["why"]))
                case "stop":
                    self._jobs.put(None)

    def _attempt(self, message: WireMessage) -> None:
        number, kind = message.header["number"], self._kinds[message.header["claim"]["kind"]]
        claim = read_claim(message.header["claim"], message.body)
        del message
        correlation_id.set(claim.correlation_id)
        blocking = not is_async(kind.handler)
        requests = WireRequests(partial(self._send_request, number), self._report_ready.set)
        context = Context(
            claim,
            blocking=blocking,
            requests=requests,
            clock=SystemClock(),
            backoff=kind.backoff,
        )
        with self._lock:
            self._requests = requests
            self._number, self._context, self._task = number, context, None
            if (reason := self._early_interrupts.pop(number, None)) is not None:
                context.interrupt(reason)
        self._wire.send({"type": "started", "number": number})
        if blocking:
            outcome = run_blocking(kind, context, claim)
        else:
            attempt = self._attempt_async(run_async(kind, context, claim), context)
            outcome = self._loop.run(attempt, context=contextvars.copy_context())
        self._finish(number, context, outcome)

    async def _attempt_async(self, attempt: Any, context: Context) -> Outcome:
        task: asyncio.Task[Outcome] = asyncio.get_running_loop().create_task(attempt)
        with self._lock:
            self._task = task
            stop = context.cancelled
        # A task that is cancelled before it starts would never report its outcome.
        await asyncio.sleep(0)
        if stop:
            task.cancel()
        return await task

    def _finish(self, number: int, context: Context, outcome: Outcome) -> None:
        with self._lock:
            self._context, self._task = None, None
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                continue  # closed or replaced by the handler
        # After a step timeout, the thread of the step may still be running.
        unfit_codes = (OUT_OF_MEMORY, STEP_TIMEOUT)
        fit = not (isinstance(outcome, (Errored, GaveUp)) and outcome.error.code in unfit_codes)
        fields, body = outcome_fields(outcome)
        files = file_fields(context.take_files())
        with self._wire.lock:
            report = report_fields(context.take_report())
            reported = {"report": report, "files": files}
            header = {"type": "done", "number": number, "fit": fit, **reported, **fields}
            self._wire.send_locked(header, body)
        correlation_id.set(None)

    def _send_request(self, number: int, header: dict[str, Any], body: bytes) -> None:
        with self._wire.lock:
            # Earlier reports of the handler are written first.
            reported = None if self._context is None else self._context.take_report()
            report = report_fields(reported)
            self._wire.send_locked({**header, "number": number, "report": report}, body)

    def _receive_response(self, message: WireMessage) -> None:
        with self._lock:
            requests = self._requests if message.header["number"] == self._number else None
        if requests is not None:
            requests.receive(message.header["id"], message.body)

    def _interrupt(self, number: int, reason: Interrupt) -> None:
        with self._lock:
            if number > self._number:
                self._early_interrupts[number] = reason
            elif number == self._number and self._context is not None:
                self._context.interrupt(reason)
                if self._task is not None:
                    self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _report_all(self) -> None:
        while self._report_ready.wait():
            self._report_ready.clear()
            with self._lock:
                number, context = self._number, self._context
            if context is not None:
                with self._wire.lock:
                    if (report := report_fields(context.take_report())) is not None:
                        header = {"type": "report", "number": number, "report": report}
                        self._wire.send_locked(header)
            time.sleep(REPORT_EVERY_S)
