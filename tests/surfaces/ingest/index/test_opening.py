"""Where the index is, and what is said where there can be none."""

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

from .conftest import Place, new_id
from .library import Library

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(dsn: str) -> Iterator[str]:
    """The address of a new database, without pgvector."""
    name = f"search_{new_id().lower()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield dsn.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def run(database: str, *statements: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_it_is_found_by_the_settings_of_the_jobs(place: Place) -> None:
    async with open_index(Settings(**place.settings())) as index:  # type: ignore[arg-type]
        await Library(index).put("a", "found by settings")
    async with place.library() as library:
        assert await library.names("settings", Mode.HYBRID) == {"a"}


def test_its_file_is_beside_the_jobs() -> None:
    assert search_file(Path("data/jobs.db")) == Path("data/jobs-search.db")
    assert search_file(Path("jobs")) == Path("jobs-search.db")


def test_no_other_database_is_taken() -> None:
    with pytest.raises(ConfigurationError, match="SQLite or PostgreSQL") as refused:
        open_index(Settings(database="mysql://user:hunter2@host/db"))
    assert "hunter2" not in str(refused.value)


async def test_a_file_by_a_newer_release_is_refused(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path}/jobs.db")
    async with open_index(settings):
        pass
    with sqlite3.connect(tmp_path / "jobs-search.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaTooNew, match="99"):
        async with open_index(settings):
            pass


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        async with open_index(Settings(database=f"sqlite:///{tmp_path}/file/jobs.db")):
            pass


async def test_tables_by_a_newer_release_are_refused(dsn: str, database: str) -> None:
    async with PostgresIndex(database, schema="s"):
        pass
    run(database, "INSERT INTO s.search_migrations (number, name) VALUES (99, 'later')")
    with pytest.raises(SchemaTooNew, match="99"):
        async with PostgresIndex(database, schema="s"):
            pass


async def test_a_server_without_pgvector_says_so(database: str) -> None:
    # Nothing is looked for where extensions are: it is as if none were installed.
    name = database.partition("?")[0].rpartition("/")[2]
    run(database, f"ALTER DATABASE {name} SET extension_control_path = '/nowhere'")
    with pytest.raises(ConfigurationError, match="needs pgvector, and PostgreSQL lacks it"):
        async with PostgresIndex(database, schema="s"):
            pass


async def test_pgvector_may_be_in_a_schema_of_its_own(database: str) -> None:
    run(database, "CREATE SCHEMA ext", "CREATE EXTENSION vector SCHEMA ext")
    async with PostgresIndex(database, schema="s", exact_up_to=0) as index:
        library = Library(index)
        await library.put("a", "gneiss and schist")
        assert await library.names("gneiss", Mode.HYBRID) == {"a"}


async def test_a_role_that_may_not_make_tables_says_who_has_to(database: str) -> None:
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
