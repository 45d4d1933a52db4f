"""Apply the migrations of the SQLite store."""

from __future__ import annotations

from errno import EISDIR
from importlib.resources import files
from pathlib import Path

import apsw

from coatcheck.errors import ConfigurationError
from coatcheck.private_files import make_private_directory
from coatcheck.store.shared.migrations import Migration, load_migrations, pending
from coatcheck.store.sqlite.database.connection import connect, translate
from coatcheck.store.sqlite.database.locks import FileLock, refuse_network_filesystem

MIGRATIONS = load_migrations(files("coatcheck.store.sqlite") / "migrations")


def applied_number(connection: apsw.Connection) -> int:
    """Return the number of the last migration applied to a database."""
    return int(connection.execute("PRAGMA user_version").get)


def migrate(
    connection: apsw.Connection, migrations: list[Migration] | None = None
) -> list[Migration]:
    """Apply missing migrations, one transaction each. The caller holds the write lock."""
    known = MIGRATIONS if migrations is None else migrations
    missing = pending(known, applied_number(connection))
    for migration in missing:
        with connection:
            connection.execute(migration.sql)
            # The number is in the file's header and is written by the same transaction.
            connection.execute(f"PRAGMA user_version = {migration.number}")
    return missing


def migrate_file(path: Path, run_folder: Path) -> list[Migration]:
    """Create a file and its folders if missing, and apply missing migrations under the write
    lock.
    """
    try:
        make_private_directory(path.parent)
        refuse_network_filesystem(path)
        run_folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(run_folder / "write.lock")
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")
    except OSError as error:
        raise ConfigurationError(f"cannot use {path} as a database: {error.strerror}") from error
    connection = None
    try:
        with lock:
            connection = connect(path)
            return migrate(connection)
    except apsw.NotADBError as error:
        raise ConfigurationError(f"{path} is not a SQLite database") from error
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        if connection is not None:
            connection.close()
        lock.close()
