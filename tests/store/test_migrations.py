import asyncio
from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import pytest

from coatcheck.errors import ConfigurationError, SchemaTooNew
from coatcheck.store.shared.migrations import Migration, load_migrations, pending
from coatcheck.store.sqlite.database.schema import MIGRATIONS, applied_number, migrate
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.another_process import AnotherProcess

NEXT = Migration(len(MIGRATIONS) + 1, "next", "CREATE TABLE later (a TEXT) STRICT;")


def schema(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    ).fetchall()


async def open_and_close(store: SQLiteStore) -> None:
    await store.open()
    await store.close()


def columns(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT tables.name, columns.* FROM sqlite_schema AS tables, "
        "pragma_table_xinfo(tables.name) AS columns WHERE tables.type = 'table' "
        "ORDER BY tables.name, columns.cid"
    ).fetchall()


def test_opening_a_store_makes_its_database(tmp_path: Path) -> None:
    database = tmp_path / "new" / "folder" / "jobs.db"
    asyncio.run(open_and_close(SQLiteStore(database)))
    with closing(apsw.Connection(str(database))) as connection:
        assert applied_number(connection) == len(MIGRATIONS) >= 1


def test_migrating_twice_does_nothing_the_second_time(database: Path) -> None:
    assert asyncio.run(SQLiteStore(database).migrate()) == MIGRATIONS
    assert asyncio.run(SQLiteStore(database).migrate()) == []


def test_a_database_migrated_step_by_step_equals_a_fresh_one() -> None:
    known = [*MIGRATIONS, NEXT]
    with closing(apsw.Connection(":memory:")) as old, closing(apsw.Connection(":memory:")) as new:
        for count in range(1, len(known) + 1):
            assert migrate(old, known[:count]) == [known[count - 1]]
            assert applied_number(old) == count
        assert migrate(new, known) == known
        assert schema(old) == schema(new)
        assert columns(old) == columns(new)


def test_a_migration_that_fails_leaves_the_one_before(database: Path) -> None:
    broken = NEXT._replace(sql=NEXT.sql + "INSERT INTO nowhere VALUES (1);")
    with closing(apsw.Connection(str(database))) as connection:
        migrate(connection)
        before = schema(connection)
        with pytest.raises(apsw.SQLError):
            migrate(connection, [*MIGRATIONS, broken])
        assert schema(connection) == before
        assert applied_number(connection) == len(MIGRATIONS)


def test_a_database_from_a_newer_release_is_refused_and_left_alone(database: Path) -> None:
    asyncio.run(SQLiteStore(database).migrate())
    with closing(apsw.Connection(str(database))) as connection:
        migrate(connection, [*MIGRATIONS, NEXT])
    before = database.read_bytes()
    with pytest.raises(SchemaTooNew, match="upgrade this one"):
        asyncio.run(SQLiteStore(database).open())
    assert database.read_bytes() == before


def test_processes_that_migrate_at_once_do_it_once(database: Path) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(AnotherProcess("migrate", database)) for _ in range(4)]
        for other in others:
            assert other.says() == "ready"
        for other in others:
            other.tell()
        applied = sorted(int(other.finish()) for other in others)
    assert applied == [0, 0, 0, len(MIGRATIONS)]
    with closing(apsw.Connection(str(database))) as found, closing(apsw.Connection("")) as fresh:
        migrate(fresh)
        assert schema(found) == schema(fresh)


@pytest.mark.parametrize(
    "content", [b"lease_s = 30\n", b"%PDF-1.7\n" + b"\0" * 5_000, b"SQLite format 4\0" * 99]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    database: Path, content: bytes
) -> None:
    database.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not a SQLite database"):
        asyncio.run(SQLiteStore(database).open())
    assert database.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_a_matter_of_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match="cannot use"):
        asyncio.run(SQLiteStore(tmp_path / "file" / "jobs.db").open())


def test_migrations_are_numbered_from_one_without_gaps(tmp_path: Path) -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))
    for name in ("001_first.sql", "003_third.sql"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(ValueError, match="without gaps"):
        load_migrations(tmp_path)


def test_what_is_pending_is_what_the_database_has_not_had() -> None:
    known = [Migration(number, "m", "") for number in (1, 2, 3)]
    assert pending(known, 0) == known
    assert pending(known, 2) == known[2:]
    assert pending(known, 3) == []
    with pytest.raises(SchemaTooNew):
        pending(known, 4)
