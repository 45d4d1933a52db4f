"""The disk usage of a program, including deleted files that it still holds open.

The supervisor imports this file without the rest of Coatcheck. Nothing here follows a link or
changes a file: the program may rename and replace everything while it is measured.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

_BLOCK = 512  # the unit of st_blocks, whatever the file system

_Files = dict[tuple[int, int], int]  # device and inode: bytes on disk


class DiskLimitExceeded(Exception):
    """A program exceeds its disk limit, or hides its usage."""


class DiskUsage:
    """Measures the disk usage of some folders."""

    def __init__(self, folders: Sequence[str], *, max_bytes: int, max_files: int) -> None:
        self._folders = folders
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._devices = {Path(folder).stat().st_dev for folder in folders}

    def check(self, pids: Iterable[int], as_user: AbstractContextManager[None]) -> None:
        """Measure the usage; raise DiskLimitExceeded if it is over the limit.

        `pids` are the program's processes, which are inspected within `as_user`.
        """
        files: _Files = {}
        for folder in self._folders:
            self._add_folder(files, folder)
        with as_user:
            for pid in pids:
                with contextlib.suppress(OSError):
                    self._add_open(files, pid)
                with contextlib.suppress(OSError):
                    self._add_mapped(files, pid)
        self._check_limits(files)

    def _check_limits(self, files: _Files) -> None:
        if len(files) > self._max_files:
            raise DiskLimitExceeded(f"more than {self._max_files} files")
        if sum(files.values()) > self._max_bytes:
            raise DiskLimitExceeded(f"more than {self._max_bytes} bytes of disk")

    def _add_folder(self, files: _Files, folder: str) -> None:
        pending = [folder]
        while pending:
            current = pending.pop()
            try:
                with os.scandir(current) as entries:
                    for entry in entries:
                        with contextlib.suppress(FileNotFoundError):
                            _add(files, entry.stat(follow_symlinks=False))
                            if entry.is_dir(follow_symlinks=False):
                                pending.append(entry.path)
            except OSError as error:
                _reject_unlistable(current, error)
            self._check_limits(files)

    def _add_open(self, files: _Files, pid: int) -> None:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found = descriptor.stat()
                is_file = stat.S_ISREG(found.st_mode) and found.st_dev in self._devices
                if is_file and found.st_nlink == 0:
                    _add(files, found)

    def _add_mapped(self, files: _Files, pid: int) -> None:
        """Count deleted files that are mapped and no longer open, by the size of the mapping."""
        mapped: _Files = {}
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            if line.endswith(" (deleted)"):
                addresses, _, _, device, inode = line.split()[:5]
                major, minor = (int(part, 16) for part in device.split(":"))
                start, end = (int(part, 16) for part in addresses.split("-"))
                key = os.makedev(major, minor), int(inode)
                if key[0] in self._devices:
                    mapped[key] = mapped.get(key, 0) + end - start
        for key, size in mapped.items():
            files.setdefault(key, size)


def _add(files: _Files, found: os.stat_result) -> None:
    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK


def _reject_unlistable(folder: str, error: OSError) -> None:
    """Raise if the program can fill a folder that the supervisor cannot list."""
    if error.errno == errno.ENAMETOOLONG:
        raise DiskLimitExceeded("folders nested deeper than a path is long") from error
    if error.errno == errno.EACCES:
        with contextlib.suppress(OSError):
            mode = os.lstat(folder).st_mode
            if stat.S_ISDIR(mode) and mode & 0o300 == 0o300:
                raise DiskLimitExceeded("a folder whose files cannot be counted") from error
