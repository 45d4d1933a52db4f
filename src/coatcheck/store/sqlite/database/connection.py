"""SQLite connections, and the translation of SQLite's errors."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw

from coatcheck.errors import CoatcheckError, StoreError, StoreUnavailable
from coatcheck.private_files import create_private

# Another tool may hold SQLite's own lock on the file. Our processes wait for write.lock instead.
BUSY_TIMEOUT_MS = 10_000
CACHE_KIB = 64 * 1024


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    """Open the database. A commit is on disk before it returns (WAL, synchronous=FULL)."""
    if not read_only:
        with contextlib.suppress(OSError):  # SQLite reports the error
            create_private(path)  # the write-ahead log inherits its mode
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=200)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    if not read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # Overwrite deleted rows: see store/sqlite/maintenance.py.
        connection.execute("PRAGMA secure_delete = ON")
        # The writer checkpoints between transactions, when no caller waits.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return connection


_TEMPORARY: tuple[type[apsw.Error], ...] = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.CantOpenError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
    apsw.ProtocolError,
    apsw.InterruptError,
)


def translate(error: Exception) -> Exception:
    """Translate an error of SQLite into one of ours; return other exceptions unchanged."""
    if isinstance(error, apsw.FullError):
        return StoreUnavailable("the disk of the database is full; nothing was changed")
    if isinstance(error, _TEMPORARY):
        return StoreUnavailable(f"the database cannot be used right now: {error}")
    if isinstance(error, apsw.Error):
        return StoreError(f"the database refused: {error}")
    return error


def is_ours(error: Exception) -> bool:
    """Return whether an operation raised this error on purpose, rather than SQLite."""
    return isinstance(error, CoatcheckError)
