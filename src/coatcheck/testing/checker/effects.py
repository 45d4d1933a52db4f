"""Side-effect log: the actions of handlers, written by the handlers outside the store.

Each event is one line, appended in a single write to a file opened with O_APPEND. Lines of several
processes therefore never mix, and a SIGKILL leaves whole lines:

    job attempt fence pid what monotonic-ns value

`fence` is `-` if the handler cannot see it. `value` is the rest of the line and may be empty.
Monotonic times can be compared between the processes of one machine.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

BEGAN = "began"  # a handler was entered
RAN = "ran"  # the body of a step was entered; the value is the end of its key: `charge#0`
RETURNED = "returned"  # a handler is about to return; the value is its result as JSON


class Effect(NamedTuple):
    """One action of a handler."""

    job_id: str
    attempt: int
    fence: int | None
    pid: int
    what: str
    at: int  # nanoseconds on the machine's monotonic clock
    value: str = ""


class EffectLog:
    """A file to which any number of processes append."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(
        self, job_id: str, attempt: int, fence: int | None, what: str, value: str = ""
    ) -> None:
        """Append a line; it is in the file when this returns."""
        shown = "-" if fence is None else fence
        at = time.monotonic_ns()
        line = f"{job_id} {attempt} {shown} {os.getpid()} {what} {at} {value}\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def read(self) -> list[Effect]:
        """Return all effects so far, in file order."""
        if not self._path.exists():
            return []
        return [_parse(line) for line in self._path.read_text(encoding="utf-8").splitlines()]


def _parse(line: str) -> Effect:
    job_id, attempt, fence, pid, what, at, value = line.split(" ", 6)
    seen = None if fence == "-" else int(fence)
    return Effect(job_id, int(attempt), seen, int(pid), what, int(at), value)
