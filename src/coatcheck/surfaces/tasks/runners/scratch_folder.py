"""A fresh folder for one command, deleted afterwards whatever the command put into it.

The creator of a folder holds a lock on it until it is deleted. A folder without a lock was left by
a killed process, or is very new: `remove_leftovers` deletes it after a while.
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
# A folder without a lock for this long belongs to nobody.
UNCLAIMED_S = 60.0


class ScratchFolder:
    """A scratch folder of this process."""

    def __init__(self, within: Path | None = None) -> None:
        """Create an empty folder that only this user can enter."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within)).resolve()
            lock = _lock_folder(self.path)
            if lock is not None:  # otherwise another process took it for a leftover
                self._lock = lock
                return

    def remove(self) -> None:
        """Delete the folder with its content."""
        try:
            remove_folder(self.path)
        finally:
            os.close(self._lock)


def remove_leftovers(within: Path | None = None, unclaimed_s: float = UNCLAIMED_S) -> int:
    """Delete folders of killed processes; return their number."""
    removed = 0
    for folder in (within or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process deletes it, or we may not
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or time.time() - found.st_ctime < unclaimed_s:
                continue
            lock = _lock_folder(folder)
            if lock is None:
                continue
            try:
                remove_folder(folder)
            finally:
                os.close(lock)
            removed += 1
    return removed


def _lock_folder(folder: Path) -> int | None:
    """Lock a folder; return None if another process has locked it, or it is gone."""
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
    """Delete a folder with its content.

    The content was created by an untrusted program: folders without permissions, or nested deeper
    than a path may be long. Therefore nested folders are first moved to the top, where a short path
    reaches them, without recursion.
    """
    moved = 0
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        current.chmod(stat.S_IRWXU)
        for entry in list(current.iterdir()):
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                continue
            moved += 1
            # Moving a folder requires write permission on it, because its ".." changes.
            entry.chmod(stat.S_IRWXU)
            waiting.append(entry.rename(folder.with_name(f"{folder.name}-{moved}")))
        current.rmdir()
