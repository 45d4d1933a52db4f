"""The supervisor of `coatcheck serve`: an API process and a worker process, kept running.

- The supervisor binds the port and the API inherits it: while the API restarts, connections wait
  in the kernel's queue instead of being refused.
- A child that dies is started again, after a pause that doubles with each quick death and is
  forgotten once it has lived for a while.
- An API that lives and does not answer (api_probe.py) is killed, and so started again.
- A child that ends because it cannot ever work (a wrong setting, an app that does not import)
  says so with its exit code, and everything stops.
- SIGTERM and SIGINT are passed on, and the children have the drain time; a second one ends them.
- Children are in sessions of their own, so that Ctrl-C reaches only the supervisor, and die with
  it (parent.py).

Everything happens in one thread: signals arrive through a pipe, a child's end by SIGCHLD, the
answer to a probe on its socket.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coatcheck.cli.exit_codes import EXIT_CONFIGURATION
from coatcheck.cli.server.api_probe import ApiProbe

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
HEALTHY_AFTER_S = 30.0
# Beyond the drain, for the last writes.
STOP_MARGIN_S = 15.0


@dataclass
class ChildProcess:
    """One process that should be running."""

    name: str
    arguments: Sequence[str]
    descriptors: Sequence[int] = ()
    probe: ApiProbe | None = None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = field(default=FIRST_PAUSE_S)
    start_at: float = 0.0


class Supervisor:
    """Keeps children running until told to stop."""

    def __init__(
        self, children: Sequence[ChildProcess], *, environment: Mapping[str, str], drain_s: float
    ) -> None:
        self._children = children
        self._environment = dict(environment)
        self._drain_s = drain_s
        # Children end when this pipe closes. The writing end is never inherited.
        self._life_reading, self._life_writing = os.pipe()
        self._signal_reading, self._signal_writing = os.pipe()
        os.set_blocking(self._signal_writing, False)
        os.set_blocking(self._signal_reading, False)

    def run(self) -> int:
        """Supervise until a signal or a hopeless child; return the exit code."""
        signal.set_wakeup_fd(self._signal_writing)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        exit_code = 0
        while True:
            self._start_due()
            arrived = self._wait_for_signal(self._next_look(), self._probes())
            if arrived & {signal.SIGTERM, signal.SIGINT}:
                break
            self._kill_hung()
            hopeless = self._reap()
            if hopeless is not None:
                exit_code = hopeless
                break
        return self._stop() or exit_code

    def _start_due(self) -> None:
        for child in self._children:
            if child.process is None and child.start_at <= time.monotonic():
                self._start(child)

    def _start(self, child: ChildProcess) -> None:
        child.started = time.monotonic()
        if child.probe is not None:
            child.probe.start_over(child.started)
        child.process = subprocess.Popen(  # noqa: S603 - our own command line
            [
                *(sys.executable, "-m", "coatcheck"),
                *child.arguments,
                *("--supervisor-pipe", str(self._life_reading)),
            ],
            env=self._environment,
            pass_fds=(self._life_reading, *child.descriptors),
            start_new_session=True,
        )
        log.info("started", extra={"child": child.name, "child_pid": child.process.pid})

    def _next_look(self) -> float | None:
        """Return in how many seconds a child is to be started or probed; None: no time is known."""
        now = time.monotonic()
        waiting = [child.start_at - now for child in self._children if child.process is None]
        waiting += [probe.due(now) for probe in self._probes()]
        return max(0.0, min(waiting)) if waiting else None

    def _probes(self) -> list[ApiProbe]:
        """Return the probes of children that run."""
        return [each.probe for each in self._children if each.probe and each.process is not None]

    def _wait_for_signal(self, timeout: float | None, probes: Sequence[ApiProbe] = ()) -> set[int]:
        reading = [self._signal_reading]
        writing: list[int] = []
        for probe in probes:
            readers, writers = probe.waits_for()
            reading += [each.fileno() for each in readers]
            writing += [each.fileno() for each in writers]
        readable, _, _ = select.select(reading, writing, [], timeout)
        if self._signal_reading not in readable:
            return set()
        return set(os.read(self._signal_reading, 1024))

    def _kill_hung(self) -> None:
        """Probe the children that have a probe, and kill those that hang."""
        for child in self._children:
            if child.probe is None or child.process is None:
                continue
            fields: dict[str, object] = {"child": child.name, "child_pid": child.process.pid}
            if child.probe.look(time.monotonic()):
                log.info("%s answers", child.name, extra=fields)
            if child.probe.is_hung:
                fields["missed_probes"] = child.probe.misses
                log.error("%s hung", child.name, extra=fields)
                child.process.kill()
                child.probe.start_over(time.monotonic())

    def _reap(self) -> int | None:
        """Note which children have ended; return the exit code of one that never can work."""
        for child in self._children:
            if child.process is None or (code := child.process.poll()) is None:
                continue
            child.process = None
            if code == EXIT_CONFIGURATION:
                return code
            if time.monotonic() - child.started >= HEALTHY_AFTER_S:
                child.pause = FIRST_PAUSE_S
            child.start_at = time.monotonic() + child.pause
            fields = {"child": child.name, "exit_code": code, "restart_in_s": child.pause}
            log.error("a process ended and will be started again", extra=fields)
            child.pause = min(LONGEST_PAUSE_S, child.pause * 2)
        return None

    def _stop(self) -> int:
        """Pass the signal on and wait; a second one, or the end of the drain, kills."""
        for child in self._running():
            child.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._drain_s + STOP_MARGIN_S
        while running := self._running():
            left = until - time.monotonic()
            again = self._wait_for_signal(max(0.0, left)) & {signal.SIGTERM, signal.SIGINT}
            if again or left <= 0:
                for child in running:
                    with contextlib.suppress(ProcessLookupError):
                        child.kill()
                for child in running:
                    child.wait()
                return 1
        return 0

    def _running(self) -> list[subprocess.Popen[bytes]]:
        processes = [child.process for child in self._children if child.process is not None]
        return [process for process in processes if process.poll() is None]
