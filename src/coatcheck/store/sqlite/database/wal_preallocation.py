"""Preallocation of the write-ahead log.

A commit appends to the log and syncs it. If the file grows, the file system has to write its new
length and blocks too, and the sync takes about twice as long. So the file is extended in large
pieces of zeros by a commit that happens anyway: one sync for both. After a checkpoint the log
starts again at its beginning, where space is available from then on.

Only the holder of an open write transaction extends the file. Nobody else appends or truncates
meanwhile. SQLite ignores everything after the last complete frame, so the zeros mean nothing, even
after a crash at any moment.

Failures: the disk is full, or the file may not grow. Then the file keeps its length, the commit
itself finds out whether its pages fit, and this process does not try again.

The log is truncated to erase deleted rows (store/sqlite/maintenance.py) and removed with the last
connection. Both show as a log with fewer pages than before; then the file is measured again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PAGE_BYTES = 4_096
# Below this, an extension would not pay off.
FEW_PAGES = 48
# How much is added at a time, and how much must be free otherwise.
PIECE_PAGES, LEAST_PAGES = 256, 64
_PIECE = bytes(PIECE_PAGES * PAGE_BYTES)


class WalPreallocation:
    """The free space in the log of a database, as one process sees it."""

    def __init__(self, database: Path, most_pages: int) -> None:
        self._path = str(database) + "-wal"
        self._most = most_pages
        self._pages = 0
        self._capacity = 0
        self._refused = False

    def record_size(self, pages: int) -> None:
        """Record how many pages the log has."""
        if pages < self._pages:
            self._capacity = 0  # it was reset or truncated
        self._pages = pages

    def extend_if_low(self) -> bool:
        """Extend the file if space is low. Returns whether it tried, which slows the transaction.

        The caller holds an open write transaction.
        """
        pages = self._pages
        if pages + LEAST_PAGES <= self._capacity or not FEW_PAGES <= pages <= self._most:
            return False
        if not self._refused:
            with contextlib.suppress(FileNotFoundError):
                self._capacity = self._extend(pages)
        return True

    def _extend(self, pages: int) -> int:
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
    """Write a whole piece. Returns False if it does not fit."""
    try:
        return os.pwrite(descriptor, piece, offset) == len(piece)
    except OSError:
        return False
