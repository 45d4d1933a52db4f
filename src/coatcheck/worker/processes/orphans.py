"""Nothing that a worker started for its jobs outlives it, however it ends.

Three things see to it, because each alone has a gap:

- A process that reads the end of its socket kills its process group. A handler that holds the
  interpreter can keep it from reading.
- On Linux the kernel kills a process as soon as the thread that started it is gone
  (PR_SET_PDEATHSIG). That reaches the process alone, and not what the handler started.
- A *guard*, one small process beside each worker, is told of every process. When its pipe closes,
  it kills all their groups: what a handler started is in the group unless it has left it.
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
    """Have the kernel end this process with the one that started it, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before
            kill_own_group()


def kill_own_group() -> None:
    """End this process and what it started."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


class OrphanGuard:
    """The guard of a worker's processes, as the worker sees it."""

    def __init__(self) -> None:
        # Isolated and without `site`: it needs nothing, and starts in a few milliseconds.
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", str(_GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def watch(self, pid: int) -> None:
        """Have the group of a process killed when this one ends."""
        self._say(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Leave a group alone: its process has ended, and the number may be given again."""
        self._say(f"-{pid}\n")

    def close(self) -> None:
        """Let the guard end; what it still watches, it kills."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        # Without a guard (somebody has killed it) there are still the two others.
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
