"""Apply the migrations of the PostgreSQL store, and reject a schema of another release.

The migrations can be applied by another role than the one that uses the tables (`coatcheck migrate`
with its own DSN). A process that may not create anything only checks the schema.
"""

from __future__ import annotations

import asyncpg

from coatcheck.errors import SchemaOutdated
from coatcheck.store.postgres.database.pool import Database, connect, translate
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.shared.migrations import Migration, pending

_APPLIED = 'SELECT coalesce(max(number), 0) FROM "{schema}".migrations'
_CREATE = """
CREATE TABLE IF NOT EXISTS "{schema}".migrations (
  number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_RECORD = 'INSERT INTO "{schema}".migrations (number, name) VALUES ($1, $2)'


async def migrate(dsn: str, sql: Statements) -> list[Migration]:
    """Apply missing migrations in one transaction, one process at a time."""
    connection = await connect(dsn)
    try:
        applied = await _applied_number(connection, sql.schema)
        if not pending(sql.migrations(), applied):
            return []  # up to date: this role may lack the right to create anything
        async with connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"coatcheck {sql.schema}"
            )
            await _prepare(connection, sql.schema)
            missing = pending(sql.migrations(), await _applied_number(connection, sql.schema))
            for migration in missing:
                await connection.execute(migration.sql)
                await connection.execute(
                    _RECORD.format(schema=sql.schema), migration.number, migration.name
                )
            return missing
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaOutdated(
            f"schema {sql.schema!r} has to be migrated, and this role may not ({error}): run "
            "`coatcheck migrate` with one that may"
        ) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise translate(error) from error
    finally:
        await connection.close()


async def check_schema(database: Database, sql: Statements) -> None:
    """Raise an error unless the schema is that of this release."""
    applied = await database.run(
        lambda connection: _applied_number(connection, sql.schema), transaction=False
    )
    if pending(sql.migrations(), applied):
        raise SchemaOutdated(
            f"schema {sql.schema!r} is at migration {applied}, and this release needs "
            f"{len(sql.migrations())}: run `coatcheck migrate` with a role that may"
        )


async def _prepare(connection: asyncpg.Connection, schema: str) -> None:
    # Create only a missing schema: a role that owns its schema may lack the right to create one.
    if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", f'"{schema}"'):
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    await connection.execute(_CREATE.format(schema=schema))


async def _applied_number(connection: asyncpg.Connection, schema: str) -> int:
    exists = await connection.fetchval(
        "SELECT to_regclass($1) IS NOT NULL", f'"{schema}".migrations'
    )
    if not exists:
        return 0
    return int(await connection.fetchval(_APPLIED.format(schema=schema)))
