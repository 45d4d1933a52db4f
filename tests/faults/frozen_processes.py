"""Freezing a process while it does not hold the lock on the shared file.

A thread that is in the kernel when SIGSTOP arrives still completes its call, and may get the lock
by it. So the lock is checked only once every thread of the process has stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path

from .place import Place


def stands_still(pid: int) -> bool:
    """Tell whether every thread of a process has stopped."""
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return all(state == "T" for state in states)


def is_being_written(place: Place) -> bool:
    """Tell whether anybody holds the file's lock; on PostgreSQL there is none."""
    if place.name != "sqlite":
        return False
    with Path(place.folder / "jobs.db.run" / "write.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(lock, fcntl.LOCK_UN)
    return False
