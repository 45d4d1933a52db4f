"""The supervisor of `coatcheck serve`: keeps an API process and a worker process running.

- The supervisor binds the port and the API inherits it. While the API restarts, connections wait
  in the kernel's backlog instead of being refused.
- A child that dies is restarted after a pause. The pause doubles with each early death and is reset
  once a child has lived long enough.
- An API that is alive but does not respond (api_probe.py) is killed and restarted.
- A child that can never work (a wrong setting, an app that does not import) exits with
  EXIT_CONFIGURATION, and the supervisor stops.
- SIGTERM and SIGINT are forwarded, and the children have the drain time; a second signal kills
  them.
- Children have their own sessions, so that Ctrl-C reaches only the supervisor.
- Children do not outlive the supervisor, even after SIGKILL. The supervisor holds the write end of
  a pipe and never writes to it; a child that reads end-of-file kills itself. On Linux the kernel
  also kills the child (PR_SET_PDEATHSIG), in case a handler holds the GIL.

The supervisor has one thread: signals arrive through a pipe, a child's exit as SIGCHLD, the
response to a probe on its socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coatcheck.cli.exit_codes import EXIT_CONFIGURATION
from coatcheck.cli.server.api_probe import ApiProbe

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
HEALTHY_AFTER_S = 30.0
# Added to the drain time, for the last writes.
STOP_MARGIN_S = 15.0
_PR_SET_PDEATHSIG = 1


@dataclass
class ChildProcess:
    """A process to keep running."""

    name: str
    arguments: Sequence[str]
    descriptors: Sequence[int] = ()
    probe: ApiProbe | None = None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = field(default=FIRST_PAUSE_S)
    start_at: float = 0.0


class Supervisor:
    """Keeps children running until a stop signal."""

    def __init__(
        self, children: Sequence[ChildProcess], *, environment: Mapping[str, str], drain_s: float
    ) -> None:
        self._children = children
        self._environment = dict(environment)
        self._drain_s = drain_s
        # Children exit when this pipe closes. The write end is never inherited.
        self._parent_reader, self._parent_writer = os.pipe()
        self._signal_reader, self._signal_writer = os.pipe()
        os.set_blocking(self._signal_writer, False)
        os.set_blocking(self._signal_reader, False)

    def run(self) -> int:
        """Supervise until a stop signal or a permanent failure; return the exit code."""
        signal.set_wakeup_fd(self._signal_writer)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        exit_code = 0
        while True:
            self._start_due()
            arrived = self._wait_for_signal(self._next_wakeup(), self._probes())
            if arrived & {signal.SIGTERM, signal.SIGINT}:
                break
            self._kill_hung()
            failure = self._reap()
            if failure is not None:
                exit_code = failure
                break
        return self._stop() or exit_code

    def _start_due(self) -> None:
        for child in self._children:
            if child.process is None and child.start_at <= time.monotonic():
                self._start(child)

    def _start(self, child: ChildProcess) -> None:
        child.started = time.monotonic()
        if child.probe is not None:
            child.probe.reset(child.started)
        child.process = subprocess.Popen(  # noqa: S603 - our own command line
            [
                *(sys.executable, "-m", "coatcheck"),
                *child.arguments,
                *("--supervisor-pipe", str(self._parent_reader)),
            ],
            env=self._environment,
            pass_fds=(self._parent_reader, *child.descriptors),
            start_new_session=True,
        )
        log.info("process started", extra={"child": child.name, "child_pid": child.process.pid})

    def _next_wakeup(self) -> float | None:
        """Return the seconds until a child must be started or probed; None if there is none."""
        now = time.monotonic()
        waiting = [child.start_at - now for child in self._children if child.process is None]
        waiting += [probe.due(now) for probe in self._probes()]
        return max(0.0, min(waiting)) if waiting else None

    def _probes(self) -> list[ApiProbe]:
        """Return the probes of running children."""
        return [each.probe for each in self._children if each.probe and each.process is not None]

    def _wait_for_signal(self, timeout: float | None, probes: Sequence[ApiProbe] = ()) -> set[int]:
        reading = [self._signal_reader]
        writing: list[int] = []
        for probe in probes:
            readers, writers = probe.wanted_sockets()
            reading += [each.fileno() for each in readers]
            writing += [each.fileno() for each in writers]
        readable, _, _ = select.select(reading, writing, [], timeout)
        if self._signal_reader not in readable:
            return set()
        return set(os.read(self._signal_reader, 1024))

    def _kill_hung(self) -> None:
        """Probe the children that have a probe; kill those that are hung."""
        for child in self._children:
            if child.probe is None or child.process is None:
                continue
            fields: dict[str, object] = {"child": child.name, "child_pid": child.process.pid}
            if child.probe.advance(time.monotonic()):
                log.info("process responds", extra=fields)
            if child.probe.is_hung:
                fields["missed_probes"] = child.probe.misses
                log.error("process hung", extra=fields)
                child.process.kill()
                child.probe.reset(time.monotonic())

    def _reap(self) -> int | None:
        """Schedule restarts of dead children; return the exit code of a permanent failure."""
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
            log.error("process exited; restarting", extra=fields)
            child.pause = min(LONGEST_PAUSE_S, child.pause * 2)
        return None

    def _stop(self) -> int:
        """Forward the signal and wait; kill after a second signal or the drain time."""
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


def die_with_parent(pipe: int) -> None:
    """Kill this process as soon as the other end of the pipe is closed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait_for_close, args=(pipe,), name="parent-watch", daemon=True).start()


def _wait_for_close(pipe: int) -> None:
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGKILL)
