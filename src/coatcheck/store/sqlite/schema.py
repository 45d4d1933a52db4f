"""Applying the migrations of this store."""

from __future__ import annotations

from importlib.resources import files

import apsw

from coatcheck.store.migrations import Migration, load_migrations, pending

MIGRATIONS = load_migrations(files("coatcheck.store.sqlite") / "migrations")


def applied_number(connection: apsw.Connection) -> int:
    """Return the number of the last migration a database has had."""
    return int(connection.execute("PRAGMA user_version").get)


def migrate(
    connection: apsw.Connection, migrations: list[Migration] | None = None
) -> list[Migration]:
    """Apply what is missing, each migration in one transaction; the caller holds the write lock."""
    known = MIGRATIONS if migrations is None else migrations
    missing = pending(known, applied_number(connection))
    for migration in missing:
        with connection:
            connection.execute(migration.sql)
            # The number is a part of the file's header, written by the same transaction.
            connection.execute(f"PRAGMA user_version = {migration.number}")
    return missing
