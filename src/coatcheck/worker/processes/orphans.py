"""Ending a worker's processes with the worker, however it ends.

Three mechanisms ensure this, because each alone has a gap:

- A process that reads the end of its socket kills its process group. A handler that holds the
  interpreter lock can keep it from reading.
- On Linux, the kernel kills a process as soon as the thread that started it is gone
  (PR_SET_PDEATHSIG). That reaches the process, but not the programs that its handler started.
- A *guard*, one small process beside each worker, knows every process. When its pipe closes, it
  kills all their process groups. A program that a handler started is in the group unless it has
  left it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GUARD = Path(__file__).with_name("guard.py")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, if the kernel can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent has ended already
            kill_own_group()


def kill_own_group() -> None:
    """Kill this process and the programs it started."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


class OrphanGuard:
    """The worker's side of the guard process."""

    def __init__(self) -> None:
        # Isolated and without `site`: it needs neither, and starts in a few milliseconds.
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", str(_GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    def watch(self, pid: int) -> None:
        """Kill the group of a process when this worker ends."""
        self._say(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Stop watching a process that has ended: its pid may be reused."""
        self._say(f"-{pid}\n")

    def close(self) -> None:
        """Let the guard end. It kills the groups that it still watches."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        # If the guard was killed, the two other mechanisms remain.
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
