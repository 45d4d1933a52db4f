"""Back up a database that is in use, as of one moment.

The source is read in one read transaction from the first page to the last. Commits made meanwhile
are not in the copy, and no writer is blocked. The copy is written under a temporary name beside the
destination and linked to its real name once it is complete and synced. So the destination is either
absent or a complete backup, and an existing destination is never written to.

The copy contains the workers of the source but not their liveness locks. The first sweep on the
copy finds these workers dead and returns their jobs to the queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from coatcheck.errors import ConfigurationError, StoreError
from coatcheck.store.sqlite.database.connection import connect, translate

PAGES_A_STEP = 2_000

# Arguments: pages copied, total pages.
Progress = Callable[[int, int], None]


def back_up(database: Path, destination: Path, progress: Progress = lambda *_: None) -> int:
    """Copy a database that may be in use; return its size in bytes."""
    if not database.is_file():
        raise ConfigurationError(f"there is no database at {database}; name it with --database")
    if destination.exists():
        raise ConfigurationError(f"{destination} exists; a backup never overwrites anything")
    partial = destination.with_name(f".{destination.name}.{os.getpid()}.part")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            _copy(database, partial, progress)
            _sync(partial)
            os.link(partial, destination)  # fails if the destination exists by now
            size = partial.stat().st_size
        finally:
            partial.unlink()
        _sync(destination.parent)
    except FileExistsError:
        raise ConfigurationError(f"{destination} was made by somebody else meanwhile") from None
    except OSError as error:
        raise StoreError(f"the backup could not be written: {error}") from error
    except apsw.Error as error:
        raise translate(error) from error
    return size


def _copy(database: Path, partial: Path, progress: Progress) -> None:
    with (
        closing(connect(database, read_only=True)) as source,
        closing(apsw.Connection(str(partial))) as copy,
    ):
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - starts the transaction
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES_A_STEP)
                progress(backup.page_count - backup.remaining, backup.page_count)
        source.execute("COMMIT")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
