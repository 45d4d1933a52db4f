"""A fresh folder for one command, gone afterwards whatever the command has made of it."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

PREFIX = "coatcheck-run-"


def make_folder(within: Path | None = None) -> Path:
    """Make an empty folder that only this user can enter."""
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=within)).resolve()


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
