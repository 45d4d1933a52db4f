"""Removing what was deleted from the disk, too.

SQLite overwrites deleted rows in their pages (`secure_delete`), but in WAL mode those pages, and
the ones they were before, lie in the write-ahead log until it is truncated: after a passive
checkpoint the bytes were still found there. So a removal is done when
`wal_checkpoint(TRUNCATE)` has succeeded, which needs that nobody writes and that no reader stands
before the end of the log. Readers here are short, so it is tried again for a while.

Triggers count what was removed and not yet erased (table `unerased`), in the transaction that
removes it; what a text was before it was sealed anew counts, too. Whoever truncates the log takes
off what it had counted before; a crash in between only means that the log is truncated once more.
The sweep of any process does what others did not.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import apsw

from coatcheck.store.sqlite.connection import connect, translate
from coatcheck.store.sqlite.locks import FileLock
from coatcheck.store.sqlite.statements import SQL

PATIENCE_S = 3.0
PAUSE_S = 0.02


def erase(path: Path, lock_path: Path) -> bool:
    """Truncate the log; False when somebody reads from it all the time."""
    lock = FileLock(lock_path)
    try:
        with closing(connect(path)) as connection:
            connection.set_busy_timeout(0)
            until = time.monotonic() + PATIENCE_S
            while not _try(connection, lock):
                if time.monotonic() >= until:
                    return False
                time.sleep(PAUSE_S)
            return True
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        lock.close()


def _try(connection: apsw.Connection, lock: FileLock) -> bool:
    with lock:  # nobody writes meanwhile
        removals = connection.execute(SQL.unerased).get
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            return False
        connection.execute(SQL.erased, (removals,))
        return True
