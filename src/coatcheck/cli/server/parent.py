"""Not outliving the supervisor, however it ends.

The supervisor keeps the writing end of a pipe that nobody ever writes to; its children hold the
reading end. When the supervisor is gone, by SIGKILL too, the kernel closes the pipe, and the child
ends at once. On Linux the kernel is asked to kill the child as well, so that a handler that holds
the interpreter cannot keep it alive.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def die_with_parent(pipe: int) -> None:
    """End this process as soon as the other end of the pipe is closed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait_for_end, args=(pipe,), name="parent-watch", daemon=True).start()


def _wait_for_end(pipe: int) -> None:
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGKILL)
