"""Inspection of a PostgreSQL database, without changes."""

from __future__ import annotations

import time
from typing import NamedTuple

import asyncpg

from coatcheck.store.postgres.database.pool import connect, translate
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.migrations import Migration, pending


class PostgresFacts(NamedTuple):
    """The server's version and clock, and the state of our schema."""

    version: str
    missing: list[Migration]
    known: int
    ahead_ms: float  # how far its clock is ahead of ours


async def inspect_postgres(dsn: str, schema: str) -> PostgresFacts:
    """Read the version, the migrations and the time; raise the same errors as the store."""
    migrations = Statements(schema).migrations()
    connection = await connect(dsn)
    try:
        version = str(await connection.fetchval("SHOW server_version")).split(" ")[0]
        applied = await _applied(connection, schema)
        before = time.time()
        theirs = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        ours = (before + time.time()) / 2
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise translate(error) from error
    finally:
        await connection.close()
    missing = pending(migrations, applied)
    return PostgresFacts(version, missing, len(migrations), (float(theirs) - ours) * 1000)


async def _applied(connection: asyncpg.Connection, schema: str) -> int:
    table = f'"{schema}".migrations'
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table):
        return 0
    # The schema's name was checked by Statements.
    return int(await connection.fetchval(f"SELECT coalesce(max(number), 0) FROM {table}"))  # noqa: S608
