"""File locks beside the database.

`<database>.run/` holds:

- `write.lock`: acquired with a blocking flock before every write transaction. SQLite's own busy
  handler sleeps and retries, which is slow and unfair between processes. A flock wakes the next
  waiter at once, and "database is locked" never occurs.
- `workers/<id>`: a worker holds a flock on its file as long as its process lives. The kernel
  releases it with the process. A process that can acquire it knows that the worker is dead, without
  waiting for its lease to expire.

None of this works on a network file system, so those are rejected.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from coatcheck.errors import ConfigurationError, Conflict

# The kernel's escapes for a space, a tab, a newline and a backslash in a mount point.
_ESCAPED = re.compile(r"\\(040|011|012|134)")

NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "9p", "ncpfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.blobfuse2"}
)


class FileLock:
    """An exclusive flock on a file of its own."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self) -> None:
        """Wait for the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class LivenessLocks:
    """The locks by which workers show that they are alive."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def hold(self, worker_id: str) -> None:
        """Hold the lock of a worker of this process until `drop` or the end of the process."""
        if worker_id in self._held:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._folder / worker_id, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Conflict(f"a worker with the id {worker_id} is alive already") from None
        self._held[worker_id] = descriptor

    def drop(self, worker_id: str) -> None:
        """Release the lock of a worker and remove its file, even one that a dead worker left."""
        (self._folder / worker_id).unlink(missing_ok=True)
        if (descriptor := self._held.pop(worker_id, None)) is not None:
            os.close(descriptor)

    def is_dead(self, worker_id: str) -> bool:
        """Return whether a worker's process has certainly ended."""
        try:
            descriptor = os.open(self._folder / worker_id, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            # Registered without a file: another process saw it dead, or the file was deleted.
            return worker_id not in self._held
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def close(self) -> None:
        """Release the locks of all workers of this process."""
        for worker_id in list(self._held):
            self.drop(worker_id)


def refuse_network_filesystem(path: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Raise ConfigurationError if the database is on a network file system."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return  # not Linux: unknown; flock raises if it does not work
    best, found = "", ""
    target = str(path.resolve())
    for line in lines:
        _, point, filesystem, *_ = line.split(" ")
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, filesystem
    if found in NETWORK_FILESYSTEMS:
        raise ConfigurationError(
            f"{path} lies on a network file system ({found} at {best}), where SQLite's locks do "
            "not hold; use a local disk, or PostgreSQL for several machines"
        )
