"""A worker's folder for the files of its jobs' inputs. Each file exists for one attempt.

Each worker has its own folder, and holds a lock on a file beside it. Any other worker removes the
folder of a worker that was killed, at its start and with every sweep: the lock shows which workers
are alive.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import threading
from pathlib import Path

from coatcheck.errors import ConfigurationError
from coatcheck.model.job import Lease

log = logging.getLogger(__name__)

LOCK = ".lock"


class Scratch:
    """The folder of one worker, created on first use. Its methods block."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path(tempfile.gettempdir()) / f"coatcheck-{os.getuid()}"
        self._folder: Path | None = None
        self._lock = -1
        self._making = threading.Lock()
        self._attempts: dict[Lease, Path] = {}  # the folder of each attempt

    def holds(self, lease: Lease) -> bool:
        """Return whether an attempt has files here."""
        return lease in self._attempts

    def folder_of(self, lease: Lease, name: str, within: Path | None = None) -> Path:
        """Return a folder of this name for a file of an attempt.

        `within` is the inbox of a process that may read no other folder.
        """
        attempt_folder = (within or self._own()) / f"{lease.job_id}-{lease.fence}"
        self._attempts[lease] = attempt_folder
        folder = attempt_folder / name
        for each in (attempt_folder, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        return folder

    def remove(self, lease: Lease) -> None:
        """Remove the files of an attempt that has ended."""
        if (folder := self._attempts.pop(lease, None)) is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def new_folder(self) -> Path:
        """Create a folder for a process, with a short name for programs that bind sockets in it."""
        return Path(tempfile.mkdtemp(prefix="p", dir=self._own()))

    def _own(self) -> Path:
        with self._making:
            if self._folder is None:
                self._folder = self._make()
            return self._folder

    def close(self) -> None:
        """Remove everything."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.with_name(self._folder.name + LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._folder = None

    def remove_leftovers(self) -> int:
        """Remove the files of dead workers; return how many workers there were."""
        removed = 0
        for lock in self._root.glob(f"*{LOCK}"):
            try:
                descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            except OSError:
                continue  # another worker was faster, or it is not ours
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_name(lock.name.removesuffix(LOCK)), ignore_errors=True)
                lock.unlink(missing_ok=True)
                removed += 1
            except BlockingIOError:
                pass  # its worker is alive
            finally:
                os.close(descriptor)
        if removed:
            log.info("files of dead workers removed", extra={"workers": removed})
        return removed

    def _make(self) -> Path:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._root.lstat()
        if self._root.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ConfigurationError(
                f"{self._root} is not private to this user: remove it, or set its mode to 700"
            )
        while True:
            # The lock is held before the folder exists, so that nobody takes the folder for a
            # leftover.
            descriptor, name = tempfile.mkstemp(LOCK, "worker-", self._root)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            folder = Path(name.removesuffix(LOCK))
            if not Path(name).exists():
                os.close(descriptor)
                continue
            folder.mkdir(mode=0o700)
            self._lock = descriptor
            return folder
