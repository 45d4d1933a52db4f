"""The tables of the index in PostgreSQL, next to those of the jobs, with their own migrations.

They need the extension pgvector. It is created if it is missing and this role may create it;
otherwise an administrator must create it once for the database.
"""

from __future__ import annotations

from importlib.resources import files

import asyncpg

from coatcheck.errors import ConfigurationError, SchemaOutdated
from coatcheck.store.postgres.database.pool import connect, translate
from coatcheck.store.postgres.database.statements import check_schema_name, for_schema
from coatcheck.store.shared.migrations import Migration, load_migrations, pending
from coatcheck.store.shared.queries import Queries

_FOLDER = files("coatcheck.surfaces.ingest.index.postgres")
_EXTENSION = """
SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'
"""
_AVAILABLE = "SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')"
_APPLIED = 'SELECT coalesce(max(number), 0) FROM "{schema}".search_migrations'
_CREATE = """
CREATE TABLE IF NOT EXISTS "{schema}".search_migrations (
  number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_RECORD = 'INSERT INTO "{schema}".search_migrations (number, name) VALUES ($1, $2)'
# The first version of pgvector that compares signs.
_MIN_VERSION = (0, 7)
_ADVICE = "on its server (https://github.com/pgvector/pgvector), or keep the jobs in SQLite"


class IndexStatements(Queries):
    """The queries with the names of the schema and of the extension's schema substituted."""

    def __init__(self, schema: str, extension: str) -> None:
        check_schema_name(schema)
        self.schema = schema
        self._extension = '"' + extension.replace('"', '""') + '"'
        super().__init__(_FOLDER / "queries.sql", self._adapt)

    def migrations(self) -> list[Migration]:
        """Return the migrations for this schema."""
        return [
            migration._replace(sql=self._adapt(migration.sql))
            for migration in load_migrations(_FOLDER / "migrations")
        ]

    def _adapt(self, text: str) -> str:
        return for_schema(text, self.schema).replace("pgvector.", f"{self._extension}.")


async def prepare(dsn: str, schema: str) -> IndexStatements:
    """Apply pending migrations in one transaction, and return the statements for this database."""
    connection = await connect(dsn)
    try:
        sql = await _statements(connection, schema)
        if sql is not None and not pending(sql.migrations(), await _applied(connection, schema)):
            return sql  # no pending migrations: this role may lack the right to create anything
        async with connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"coatcheck {schema}"
            )
            return await _create(connection, schema)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SchemaOutdated(
            f"the search index must be created in schema {schema!r}, and this role may not "
            f"({error}): start once with a role that may; CREATE EXTENSION vector may need another"
        ) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise translate(error) from error
    finally:
        await connection.close()


async def _create(connection: asyncpg.Connection, schema: str) -> IndexStatements:
    sql = await _statements(connection, schema)
    if sql is None:
        if not await connection.fetchval(_AVAILABLE):
            raise ConfigurationError(
                f"the search index needs pgvector, and PostgreSQL lacks it: install it {_ADVICE}"
            )
        await connection.execute("CREATE EXTENSION vector")
        sql = await _statements(connection, schema)
        assert sql is not None
    if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", f'"{schema}"'):
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    await connection.execute(_CREATE.format(schema=schema))
    for migration in pending(sql.migrations(), await _applied(connection, schema)):
        await connection.execute(migration.sql)
        await connection.execute(_RECORD.format(schema=schema), migration.number, migration.name)
    return sql


async def _statements(connection: asyncpg.Connection, schema: str) -> IndexStatements | None:
    check_schema_name(schema)
    row = await connection.fetchrow(_EXTENSION)
    if row is None:
        return None
    version = tuple(int(part) for part in row["extversion"].split(".")[:2])
    if version < _MIN_VERSION:
        raise ConfigurationError(
            f"the search index needs pgvector 0.7 or newer, not {row['extversion']}: upgrade it "
            f"{_ADVICE}"
        )
    return IndexStatements(schema, row["nspname"])


async def _applied(connection: asyncpg.Connection, schema: str) -> int:
    exists = await connection.fetchval(
        "SELECT to_regclass($1) IS NOT NULL", f'"{schema}".search_migrations'
    )
    return int(await connection.fetchval(_APPLIED.format(schema=schema))) if exists else 0
