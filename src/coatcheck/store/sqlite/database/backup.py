"""A copy of a database that is in use, as it stood at one moment.

The source is read in a transaction of its own from the first page to the last: what others commit
meanwhile is not in the copy, and nobody waits for it. The copy grows under a name of its own beside
the destination and gets its real one when it is complete and on the disk. So a destination is
either not there or a whole backup, and one that exists is never written to.

Workers of the source are in the copy too, but not their life signs: whoever opens it finds them
dead at the first sweep, and their jobs go back to the queue.
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

# Pages copied, pages in all.
Progress = Callable[[int, int], None]


def back_up(database: Path, destination: Path, progress: Progress = lambda *_: None) -> int:
    """Copy a database that may be in use; return the size of the copy in bytes."""
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
            os.link(partial, destination)  # fails if somebody made it meanwhile
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
        source.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - this is the moment
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
