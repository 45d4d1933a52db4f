"""Where the two ends of a line meet: a folder of sockets that only this user can enter."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

# The kernel's limit for a socket's path is 108 bytes on Linux and 104 elsewhere, with the NUL.
LONGEST_PATH = 100
NAME_LENGTH = 33
# Tried in this order: the first may have too long a path.
PLACES: tuple[Callable[[], str], ...] = (
    tempfile.gettempdir,
    lambda: "/tmp",  # noqa: S108 - for a folder of our own in it
)


def folder() -> Path | None:
    """Return the folder, made where it is missing; None where there is none to be trusted."""
    for place in PLACES:
        found = Path(place()) / f"coatcheck-lines-{os.getuid()}"
        if len(os.fsencode(found)) + NAME_LENGTH > LONGEST_PATH:
            continue
        try:
            found.mkdir(mode=0o700, exist_ok=True)
            there = found.lstat()
        except OSError:
            continue
        # Somebody else's folder of that name, or one that others can enter, is not to be used.
        if there.st_uid == os.getuid() and there.st_mode & 0o170077 == 0o040000:
            return found
    return None


def path_of(name: str) -> Path | None:
    """Return where a socket of that name would be."""
    place = folder()
    return None if place is None else place / name


def remove_dead(place: Path) -> None:
    """Remove the sockets of processes that were killed."""
    for path in place.iterdir():
        with socket.socket(socket.AF_UNIX) as trying, contextlib.suppress(OSError):
            trying.setblocking(False)
            try:
                trying.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
