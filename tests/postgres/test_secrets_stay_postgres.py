"""The same look for secrets as on SQLite, on a database whose address has a password in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from tests.hardening.secret_traces import WAYS, live, made_up

PASSWORD = "swordfish-7f3a9c"


@pytest.mark.parametrize("names", WAYS, ids=["all set", "a pepper"])
def test_no_secret_can_be_read_after_a_server_s_life(
    dsn: str, schema: str, tmp_path: Path, names: Sequence[str]
) -> None:
    hidden = made_up(names)
    address = dsn.replace("postgres:@", f"postgres:{PASSWORD}@")
    life = live(tmp_path, hidden, database=address, schema=schema)
    life.hidden["password"] = PASSWORD
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [schema]
        ).fetchall()
        for (table,) in tables:
            rows = connection.execute(f'SELECT * FROM "{schema}"."{table}"').fetchall()
            life.said[table] = repr(rows)

    assert life.leaks() == []
    assert "acme" in life.said["tenants"]
