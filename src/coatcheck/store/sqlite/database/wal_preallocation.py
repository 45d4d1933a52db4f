"""Room in the write-ahead log, made before it is needed.

A commit appends to the log and syncs it. Where that makes the file longer, the file system has to
write down its new length and blocks as well, and the sync takes about as long again. So the file is
made longer in large pieces of zeros, by a commit that is due anyway: one sync for both. Once the
log has been written back it begins anew at its start, where there is room from then on.

Who may do it: whoever has begun a write transaction on the file, for as long as that is open. Then
nobody else appends, and nobody cuts the file short. SQLite passes over what comes after the last
frame that is whole, whatever it is; so zeros there mean nothing, also after a crash at any moment.

What can fail: the disk is full, or the file may not grow. Then it is left as it was, the commit
finds out by itself whether its own pages fit, and this process does not try again.

The log is cut short when it is truncated to erase what was deleted (store/sqlite/maintenance.py)
and removed with the last connection. It is seen by the log having fewer pages than before: then the
file is looked at again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PAGE_BYTES = 4_096
# Who writes this little is gone before it would pay.
FEW_PAGES = 48
# How much room is made at a time, and how much must be left else.
PIECE_PAGES, LEAST_PAGES = 256, 64
_PIECE = bytes(PIECE_PAGES * PAGE_BYTES)


class WalPreallocation:
    """What one process knows of the room in the log of a database."""

    def __init__(self, database: Path, most_pages: int) -> None:
        self._path = str(database) + "-wal"
        self._most = most_pages
        self._pages = 0
        self._room = 0
        self._refused = False

    def used(self, pages: int) -> None:
        """So many pages are in the log now."""
        if pages < self._pages:
            self._room = 0  # it began anew, or was truncated
        self._pages = pages

    def make(self) -> bool:
        """Make room for what comes, if it is getting scarce; within a write transaction, which
        then takes longer.
        """
        pages = self._pages
        if pages + LEAST_PAGES <= self._room or not FEW_PAGES <= pages <= self._most:
            return False
        if not self._refused:
            with contextlib.suppress(FileNotFoundError):
                self._room = self._extended(pages)
        return True

    def _extended(self, pages: int) -> int:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size >= (pages + LEAST_PAGES) * PAGE_BYTES:
                return size // PAGE_BYTES
            if not _write(descriptor, _PIECE, size):
                self._refused = True
                os.ftruncate(descriptor, size)
                return size // PAGE_BYTES
            return size // PAGE_BYTES + PIECE_PAGES
        finally:
            os.close(descriptor)


def _write(descriptor: int, piece: bytes, offset: int) -> bool:
    """Write all of a piece; False where it does not fit."""
    try:
        return os.pwrite(descriptor, piece, offset) == len(piece)
    except OSError:
        return False
