import itertools
import re
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import apsw
import apsw.ext
import pytest

from coatcheck.store.base import JobFilter
from coatcheck.store.shared.queries import Queries
from coatcheck.store.sqlite.database.schema import migrate
from coatcheck.store.sqlite.database.statements import SQL
from coatcheck.store.sqlite.list_query import list_query

SOURCES = [
    entry.read_text(encoding="utf-8")
    for entry in Path(str(files("coatcheck.store.sqlite"))).rglob("*.py")
]


@pytest.fixture(scope="module")
def connection() -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection)
        yield connection


@pytest.mark.parametrize("name", [name for name in SQL.names() if not name.startswith("list_")])
def test_every_query_fits_the_schema(connection: apsw.Connection, name: str) -> None:
    prepared = apsw.ext.query_info(connection, getattr(SQL, name))
    assert prepared.query_remaining is None, "one name, one statement"


def test_the_listing_fits_the_schema_with_any_filter(connection: apsw.Connection) -> None:
    for choice in itertools.product((None, "x"), (None, "x"), (None, "x"), (None, 5), (None, "x")):
        for labels in ((), (("a", "b"),), (("a", "b"), ("c", "d"))):
            sql, values = list_query(JobFilter("tenant", *choice, labels=labels))  # type: ignore[arg-type]  # any text will do
            assert apsw.ext.query_info(connection, sql).bindings_count == len(values)


@pytest.mark.parametrize("name", SQL.names())
def test_every_query_is_used(name: str) -> None:
    assert any(re.search(rf"\bSQL\.{name}\b", source) for source in SOURCES)


def test_every_query_that_is_used_exists() -> None:
    used = {name for source in SOURCES for name in re.findall(r"\bSQL\.(\w+)", source)}
    assert used == set(SQL.names())


def test_a_file_of_queries_is_read_by_name(tmp_path: Path) -> None:
    source = tmp_path / "queries.sql"
    source.write_text(
        "-- name: first\n-- Why it is so.\nSELECT 1;\n\n-- name: second\nSELECT 2\nFROM x\n"
    )
    queries = Queries(source)
    assert queries.names() == ["first", "second"]
    assert queries.first == "SELECT 1"
    assert queries.second == "SELECT 2\nFROM x"
    with pytest.raises(AttributeError, match="third"):
        _ = queries.third


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "queries.sql"
    source.write_text("-- name: same\nSELECT 1\n-- name: same\nSELECT 2\n")
    with pytest.raises(ValueError, match="twice"):
        Queries(source)
