"""Opening the index: where it is, and the errors if it cannot be opened."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from coatcheck.errors import ConfigurationError, SchemaOutdated, SchemaTooNew, StoreUnavailable
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.index.base import Mode
from coatcheck.surfaces.ingest.index.open import open_index, search_file
from coatcheck.surfaces.ingest.index.postgres.index import PostgresIndex

from .conftest import IndexLocation, new_id
from .library import Library

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(dsn: str) -> Iterator[str]:
    """The URL of a new database without pgvector."""
    name = f"search_{new_id().lower()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield dsn.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def run(database: str, *statements: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_index_is_opened_from_the_job_settings(location: IndexLocation) -> None:
    async with open_index(Settings(**location.settings())) as index:  # type: ignore[arg-type]
        await Library(index).put("a", "found by settings")
    async with location.library() as library:
        assert await library.names("settings", Mode.HYBRID) == {"a"}


def test_file_is_next_to_the_job_database() -> None:
    assert search_file(Path("data/jobs.db")) == Path("data/jobs-search.db")
    assert search_file(Path("jobs")) == Path("jobs-search.db")


def test_other_databases_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="SQLite or PostgreSQL") as refused:
        open_index(Settings(database="mysql://user:hunter2@host/db"))
    assert "hunter2" not in str(refused.value)


async def test_file_of_a_newer_release_is_rejected(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path}/jobs.db")
    async with open_index(settings):
        pass
    with sqlite3.connect(tmp_path / "jobs-search.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaTooNew, match="99"):
        async with open_index(settings):
            pass


async def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        async with open_index(Settings(database=f"sqlite:///{tmp_path}/file/jobs.db")):
            pass


async def test_tables_of_a_newer_release_are_rejected(dsn: str, database: str) -> None:
    async with PostgresIndex(database, schema="s"):
        pass
    run(database, "INSERT INTO s.search_migrations (number, name) VALUES (99, 'later')")
    with pytest.raises(SchemaTooNew, match="99"):
        async with PostgresIndex(database, schema="s"):
            pass


async def test_missing_pgvector_is_reported(database: str) -> None:
    # An empty extension directory: nothing is installed.
    name = database.partition("?")[0].rpartition("/")[2]
    run(database, f"ALTER DATABASE {name} SET extension_control_path = '/nowhere'")
    with pytest.raises(ConfigurationError, match="needs pgvector, and PostgreSQL lacks it"):
        async with PostgresIndex(database, schema="s"):
            pass


async def test_pgvector_may_be_in_its_own_schema(database: str) -> None:
    run(database, "CREATE SCHEMA ext", "CREATE EXTENSION vector SCHEMA ext")
    async with PostgresIndex(database, schema="s", exact_up_to=0) as index:
        library = Library(index)
        await library.put("a", "gneiss and schist")
        assert await library.names("gneiss", Mode.HYBRID) == {"a"}


async def test_role_without_create_permission_gets_advice(database: str) -> None:
    role = f"reader_{new_id().lower()}"
    run(database, f"CREATE ROLE {role} LOGIN", "CREATE EXTENSION vector")
    try:
        as_role = database.replace("postgres:@", f"{role}:@")
        assert as_role != database
        with pytest.raises(SchemaOutdated, match="this role may not"):
            async with PostgresIndex(as_role, schema="s"):
                pass
        async with PostgresIndex(database, schema="s") as index:
            await Library(index).put("a", "slate")
        run(
            database,
            f"GRANT USAGE ON SCHEMA s TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA s TO {role}",
        )
        async with PostgresIndex(as_role, schema="s") as index:
            library = Library(index)
            await library.put("b", "slate roof")
            assert await library.names("slate", Mode.HYBRID) == {"a", "b"}
    finally:
        await asyncio.to_thread(run, database, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
