"""Keys and the audit trail, with very many of them: SQLite seeks in the index made for it, as it
comes and after ANALYZE, which an operator may run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw
import pytest

from coatcheck.model.access import ApiKey, Tenant
from coatcheck.store.shared.rows import read_key, read_tenant
from coatcheck.store.sqlite.database.schema import MIGRATIONS, migrate
from coatcheck.store.sqlite.database.statements import SQL

_FILL = """
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 19999)
INSERT INTO audit SELECT 'tenant-' || (n % 3), printf('%026d', n), 'key-' || (n % 50),
  'key.create', 'key', 'key-' || n, '{}' FROM number;
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 4999)
INSERT INTO keys SELECT 'tenant-' || (n % 3), printf('%012d', n), '', '[]', '', n, NULL, NULL, NULL
FROM number;
INSERT INTO tenants SELECT DISTINCT tenant, 'active', '{}', 0, 0 FROM keys;
"""
_ANY = (None, None, None, None)
NAMED: list[tuple[str, tuple[Any, ...], set[str]]] = [
    ("key_with_tenant", ("000000000007",), {"INDEX keys_by_id", "PRIMARY KEY"}),
    ("api_key", ("000000000007",), {"INDEX keys_by_id"}),
    ("revoke_key", (1, "000000000007"), {"INDEX keys_by_id"}),
    ("keys_after", ("", 50), {"INDEX keys_by_id"}),
    ("keys_of_tenant_after", ("tenant-1", "", 50), {"PRIMARY KEY"}),
    ("touch_key", ("tenant-1", "000000000007", 9, 9), {"INDEX keys_by_id"}),
    ("audit_before", ("", "8", *_ANY, 50), {"INDEX audit_by_id"}),
    ("audit_of_tenant_before", ("tenant-1", "", "8", *_ANY, 50), {"PRIMARY KEY"}),
    ("delete_old_audit", ("0001", 100), {"COVERING INDEX audit_by_id", "PRIMARY KEY"}),
]


@pytest.fixture(scope="module", params=["as it comes", "after ANALYZE"])
def database(request: pytest.FixtureRequest) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection)
        connection.execute(_FILL)
        if request.param == "after ANALYZE":
            connection.execute("ANALYZE")
        yield connection


@pytest.mark.parametrize(("name", "values", "ways"), NAMED, ids=[name for name, *_ in NAMED])
def test_a_statement_seeks_in_the_index_made_for_it(
    database: apsw.Connection, name: str, values: tuple[Any, ...], ways: set[str]
) -> None:
    plan = [row[3] for row in database.execute("EXPLAIN QUERY PLAN " + getattr(SQL, name), values)]
    steps = [step for step in plan if " USING " in step or step.startswith("SCAN")]
    assert all(step.startswith("SEARCH") for step in steps), plan
    found = {step.partition(" USING ")[2].partition(" (")[0] for step in steps}
    assert found == ways, plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def test_every_row_of_a_tenant_is_known_by_its_tenant_first(database: apsw.Connection) -> None:
    tables = [
        name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ]
    for table in tables:
        columns = database.execute(
            "SELECT name, pk FROM pragma_table_info(?) ORDER BY pk", (table,)
        ).fetchall()
        if not any(name == "tenant" for name, _ in columns):
            continue
        key = [name for name, place in columns if place]
        if not key:  # jobs have a rowid, and are known by an index
            indexes = database.execute(
                'SELECT name FROM pragma_index_list(?) WHERE "unique"', (table,)
            ).fetchall()
            for (index,) in indexes:
                [(first,)] = database.execute(
                    "SELECT name FROM pragma_index_info(?) WHERE seqno = 0", (index,)
                ).fetchall()
                assert first == "tenant", index
            continue
        assert key[0] == "tenant", table


def test_keys_of_an_earlier_release_stay() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, MIGRATIONS[:11])
        connection.execute("INSERT INTO tenants VALUES ('acme', 'active', '{}', 1, 1)")
        connection.execute(
            "INSERT INTO keys VALUES ('k', 'acme', 'd', '[\"admin\"]', 'n', 1, 2, 3)"
        )
        migrate(connection)
        row = connection.execute(SQL.key_with_tenant, ("k",)).fetchone()
        assert row is not None
        assert read_key(row[:9]) == ApiKey("k", "acme", "d", ("admin",), "n", 1, 2, 3, None)
        assert read_tenant(row[9:]) == Tenant("acme", created_at=1, updated_at=1)
        with pytest.raises(apsw.ConstraintError):
            connection.execute(
                "INSERT INTO keys VALUES ('other', 'k', 'd', '[]', '', 1, NULL, NULL, NULL)"
            )
