"""The disk space that a program uses, including files that it has deleted and still holds open.

The supervisor imports this file without the rest of Coatcheck. Nothing here follows a link or
changes a file: the program may rename and replace whatever is being looked at.
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


class TooMuchDisk(Exception):
    """A program uses more than it may, or hides what it uses."""


class DiskUsage:
    """Measures what lies in some folders."""

    def __init__(self, folders: Sequence[str], *, most_bytes: int, most_files: int) -> None:
        self._folders = folders
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._devices = {Path(folder).stat().st_dev for folder in folders}

    def check(self, pids: Iterable[int], as_user: AbstractContextManager[None]) -> None:
        """Measure once; raises TooMuchDisk.

        `pids` are the program's processes, which are looked at within `as_user`.
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
        self._refuse_excess(files)

    def _refuse_excess(self, files: _Files) -> None:
        if len(files) > self._most_files:
            raise TooMuchDisk(f"more than {self._most_files} files")
        if sum(files.values()) > self._most_bytes:
            raise TooMuchDisk(f"more than {self._most_bytes} bytes of disk")

    def _add_folder(self, files: _Files, folder: str) -> None:
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            try:
                with os.scandir(current) as entries:
                    for entry in entries:
                        with contextlib.suppress(FileNotFoundError):
                            _add(files, entry.stat(follow_symlinks=False))
                            if entry.is_dir(follow_symlinks=False):
                                waiting.append(entry.path)
            except OSError as error:
                _refuse_hidden(current, error)
            self._refuse_excess(files)

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


def _refuse_hidden(folder: str, error: OSError) -> None:
    """Refuse a folder that the program can fill and the supervisor cannot list."""
    if error.errno == errno.ENAMETOOLONG:
        raise TooMuchDisk("folders nested deeper than a path is long") from error
    if error.errno == errno.EACCES:
        with contextlib.suppress(OSError):
            mode = os.lstat(folder).st_mode
            if stat.S_ISDIR(mode) and mode & 0o300 == 0o300:
                raise TooMuchDisk("a folder whose files cannot be counted") from error
