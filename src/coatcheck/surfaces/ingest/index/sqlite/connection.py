"""Open the database of the index, with sqlite-vec loaded."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import apsw
import sqlite_vec

from coatcheck.store.shared.migrations import load_migrations, pending
from coatcheck.store.shared.queries import Queries
from coatcheck.store.sqlite.database.connection import connect as connect_plainly
from coatcheck.store.sqlite.database.schema import applied_number

_FOLDER = files("coatcheck.surfaces.ingest.index.sqlite")
SQL = Queries(_FOLDER / "queries.sql")
MIGRATIONS = load_migrations(_FOLDER / "migrations")

# Publishing a large document takes time, and other writers wait for it.
BUSY_TIMEOUT_MS = 60_000
CHECKPOINT_PAGES = 1_000


def connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    """Open the database like the job store's, and load sqlite-vec on this connection only."""
    connection = connect_plainly(path, read_only=read_only)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    if not read_only:
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    return connection


def migrate(connection: apsw.Connection) -> None:
    """Apply pending migrations in one transaction, one process at a time."""
    if not pending(MIGRATIONS, applied_number(connection)):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in pending(MIGRATIONS, applied_number(connection)):
            connection.execute(migration.sql)
            connection.execute(f"PRAGMA user_version = {migration.number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
