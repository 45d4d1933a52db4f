"""Keys and the audit trail, with very many of them: PostgreSQL reads what it returns, planned for
the values as well as once for all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from coatcheck.store.postgres.database.statements import Statements
from tests.postgres.test_delivery_plans_postgres import Explainer

SCHEMA = f"access_{os.getpid()}"
SQL = Statements(SCHEMA)
_FILL = f"""
INSERT INTO "{SCHEMA}".keys (tenant, id, digest, scopes, note, created_at)
SELECT 'tenant-' || n % 3, lpad(n::text, 12, '0'), '', '[]', '', n
FROM generate_series(0, 19999) AS number(n);
INSERT INTO "{SCHEMA}".tenants SELECT DISTINCT tenant, 'active', '{{}}', 0, 0 FROM "{SCHEMA}".keys;
INSERT INTO "{SCHEMA}".audit
SELECT 'tenant-' || n % 3, lpad(n::text, 26, '0'), 'key-' || n % 50, 'key.create', 'key',
  'key-' || n, '{{}}' FROM generate_series(0, 49999) AS number(n);
ANALYZE "{SCHEMA}".keys, "{SCHEMA}".tenants, "{SCHEMA}".audit;
"""
_ANY = (None, None, None, None)
NAMED: list[tuple[str, tuple[Any, ...], int]] = [
    ("key_with_tenant", ("000000000007",), 1),
    ("api_key", ("000000000007",), 1),
    ("keys_after", ("", 50), 50),
    ("keys_of_tenant_after", ("tenant-1", "", 50), 50),
    ("audit_before", ("", "8", *_ANY, 50), 50),
    ("audit_of_tenant_before", ("tenant-1", "", "8", *_ANY, 50), 50),
]


@pytest.fixture(scope="module")
def database(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(f'CREATE SCHEMA "{SCHEMA}"'.encode())
        for migration in SQL.migrations():
            connection.execute(migration.sql.encode())
        connection.execute(_FILL.encode())
        yield connection
        connection.execute(f'DROP SCHEMA "{SCHEMA}" CASCADE'.encode())


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def explainer(database: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Explainer:
    return Explainer(database, request.param)


@pytest.mark.parametrize(("name", "values", "found"), NAMED, ids=[name for name, *_ in NAMED])
def test_only_what_is_returned_is_read(
    explainer: Explainer, name: str, values: tuple[Any, ...], found: int
) -> None:
    read = explainer.run(getattr(SQL, name), *values)
    assert read.found == found
    assert "keys" not in read.whole_tables, read
    assert "audit" not in read.whole_tables, read
    assert read.rows <= 4 * found + 3, read  # with the tenants, of which there are three


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("revoke_key", ("000000000007", 1)),
        ("touch_keys", (["tenant-1", "tenant-2"], ["000000000007", "000000000008"], [9, 9], 1)),
        ("delete_old_audit", ("0" * 23 + "050", 20)),
    ],
)
def test_only_what_is_changed_is_read(
    explainer: Explainer, name: str, values: tuple[Any, ...]
) -> None:
    read = explainer.run(getattr(SQL, name), *values)
    assert read.whole_tables == [], read
    assert read.rows <= 100, read


def test_every_row_of_a_tenant_is_known_by_its_tenant_first(
    database: psycopg.Connection[Any],
) -> None:
    keys = database.execute(
        "SELECT tables.relname, attribute.attname FROM pg_index "
        "JOIN pg_class AS tables ON tables.oid = indrelid "
        "JOIN pg_attribute AS attribute ON attrelid = indrelid AND attnum = indkey[0] "
        "WHERE indisprimary AND relnamespace = to_regnamespace(%s) AND EXISTS ("
        "SELECT 1 FROM pg_attribute AS own WHERE own.attrelid = indrelid "
        "AND own.attname = 'tenant')",
        [SCHEMA],
    ).fetchall()
    assert len(keys) > 10
    assert {first for _, first in keys} == {"tenant"}, keys
