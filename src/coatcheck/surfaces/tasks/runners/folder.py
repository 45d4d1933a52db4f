"""A fresh folder for one command, gone afterwards whatever the command has made of it.

Whoever made a folder holds a lock on it until it is removed. What is not locked was left by who was
killed, or is a moment old: `remove_leftovers` takes it away after a while.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from pathlib import Path

PREFIX = "coatcheck-run-"
# A folder that nobody has locked for so long is nobody's.
UNCLAIMED_S = 60.0


class Folder:
    """A folder of this process."""

    def __init__(self, within: Path | None = None) -> None:
        """Make an empty folder that only this user can enter."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within)).resolve()
            lock = _locked(self.path)
            if lock is not None:  # else somebody took it for a leftover
                self._lock = lock
                return

    def remove(self) -> None:
        """Remove it with everything in it."""
        try:
            remove_folder(self.path)
        finally:
            os.close(self._lock)


def remove_leftovers(within: Path | None = None, unclaimed_s: float = UNCLAIMED_S) -> int:
    """Remove what processes have left that were killed; return how many folders."""
    removed = 0
    for folder in (within or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else is at it, or it is not ours to remove
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or time.time() - found.st_ctime < unclaimed_s:
                continue
            lock = _locked(folder)
            if lock is None:
                continue
            try:
                remove_folder(folder)
            finally:
                os.close(lock)
            removed += 1
    return removed


def _locked(folder: Path) -> int | None:
    """Lock a folder; None where somebody else has it, or it is gone."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.lstat()):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def remove_folder(folder: Path) -> None:
    """Remove a folder with everything in it.

    It holds what a stranger's program has made: folders that nobody may enter, or nested deeper
    than a path is long. So each folder's own folders are first moved up to the top, where a short
    path leads to them, and nothing here recurses.
    """
    emptied = 0
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        current.chmod(stat.S_IRWXU)
        for entry in list(current.iterdir()):
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                continue
            emptied += 1
            # A folder can only be moved by who may write to it: its ".." changes.
            entry.chmod(stat.S_IRWXU)
            waiting.append(entry.rename(folder.with_name(f"{folder.name}-{emptied}")))
        current.rmdir()
