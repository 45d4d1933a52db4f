"""Where the two ends of a line meet: a folder of sockets that only this user can enter.

Beside the sockets lies a key. With it the process that waits for a job, and the worker that runs
it, make the ticket of the call from the name of the socket and the job's id. So no ticket is
stored, and no job has the ticket of another: neither a fork nor a job that a client has submitted
can answer a connection that waits for somebody else's.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from coatcheck.crypto.pepper import write_once

# The kernel's limit for a socket's path is 108 bytes on Linux and 104 elsewhere, with the NUL.
LONGEST_PATH = 100
NAME_LENGTH = 33
KEY = "key"
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


def ticket_of(place: Path, name: str, job_id: str) -> str | None:
    """Return the ticket of a job at a socket of the folder; None if there is no key for it."""
    try:
        key = _key_in(place)
    except OSError:
        return None
    return hmac.digest(key, f"{name} {job_id}".encode(), "sha256").hex()


def _key_in(place: Path) -> bytes:
    path = place / KEY
    try:
        found = path.stat()
    except FileNotFoundError:
        write_once(path, secrets.token_hex(32))
        found = path.stat()
    return _read_key(path, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=2)
def _read_key(path: Path, _inode: int, _written_at: int) -> bytes:
    """Read a key, once for as long as its file stays the same."""
    return path.read_bytes()


def remove_dead(place: Path) -> None:
    """Remove the sockets of processes that were killed."""
    for path in filter(Path.is_socket, place.iterdir()):
        with socket.socket(socket.AF_UNIX) as trying, contextlib.suppress(OSError):
            trying.setblocking(False)
            try:
                trying.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
