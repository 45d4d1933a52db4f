"""Files and directories that only their owner can read.

The database, its log, the search index, the blobs and the pepper hold the data of every tenant. So
each directory that Coatcheck creates has the mode 0700 and each file 0600, whatever the umask. The
mode of existing files and directories belongs to the operator and is not changed; `coatcheck
doctor` warns if others can read them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing. A new file gets the mode 0600."""
    return open(path, "wb", opener=_create)


def create_private(path: Path) -> None:
    """Create an empty file with the mode 0600, unless it exists."""
    os.close(_create(path, os.O_RDWR))


def make_private_directory(path: Path) -> None:
    """Create a directory, and its missing parents, with the mode 0700."""
    if path.is_dir():
        return
    make_private_directory(path.parent)
    path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def is_open_to_others(path: Path) -> bool:
    """Return whether anyone but the owner may read, write or enter a path."""
    return bool(path.stat().st_mode & _OTHERS)


def _create(path: str | Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
