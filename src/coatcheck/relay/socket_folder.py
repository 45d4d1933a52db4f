"""The folder of the relay's sockets, which only this user can enter.

The folder also holds a key. The process that waits for a job and the worker that runs it both make
the call's token from that key, the socket's name and the job's id. So no token is stored, and no
job has the token of another: neither a fork nor a job that a client submitted can answer a
connection that waits for another job.
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
MAX_PATH = 100
NAME_LENGTH = 33
KEY = "key"
# Tried in this order: the path of the first may be too long.
PARENTS: tuple[Callable[[], str], ...] = (
    tempfile.gettempdir,
    lambda: "/tmp",  # noqa: S108 - for a folder of our own in it
)


def find_folder() -> Path | None:
    """Return the folder, created if missing; None if there is none that can be trusted."""
    for parent in PARENTS:
        folder = Path(parent()) / f"coatcheck-lines-{os.getuid()}"
        if len(os.fsencode(folder)) + NAME_LENGTH > MAX_PATH:
            continue
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        # Reject a folder that belongs to another user or that others can enter.
        if found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000:
            return folder
    return None


def make_token(folder: Path, name: str, job_id: str) -> str | None:
    """Return the token of a job at a socket of the folder; None if there is no key."""
    try:
        key = _key_in(folder)
    except OSError:
        return None
    return hmac.digest(key, f"{name} {job_id}".encode(), "sha256").hex()


def _key_in(folder: Path) -> bytes:
    path = folder / KEY
    try:
        found = path.stat()
    except FileNotFoundError:
        write_once(path, secrets.token_hex(32))
        found = path.stat()
    return _read_key(path, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=2)
def _read_key(path: Path, _inode: int, _modified_at: int) -> bytes:
    """Read a key, cached until its file changes."""
    return path.read_bytes()


def remove_stale_sockets(folder: Path) -> None:
    """Remove the sockets of processes that were killed."""
    for path in filter(Path.is_socket, folder.iterdir()):
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.setblocking(False)
            try:
                client.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
