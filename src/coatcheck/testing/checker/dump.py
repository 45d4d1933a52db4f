"""Dumps of every table of a store, read without the store's own code."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

Tables = dict[str, list[tuple[object, ...]]]


def dump_sqlite(database: Path) -> Tables:
    """Read every table of an SQLite file."""
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        names = [
            str(row[0])
            for row in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        return {name: list(connection.execute(f'SELECT * FROM "{name}"')) for name in names}


async def dump_postgres(dsn: str, schema: str) -> Tables:
    """Read every table of a PostgreSQL schema."""
    import asyncpg  # noqa: PLC0415 - optional dependency

    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetch(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = $1 AND table_type = 'BASE TABLE'",
            schema,
        )
        return {
            name: [
                tuple(row) for row in await connection.fetch(f'SELECT * FROM "{schema}"."{name}"')
            ]
            for (name,) in found
        }
    finally:
        await connection.close()
