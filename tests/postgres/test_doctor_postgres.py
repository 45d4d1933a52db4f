"""`coatcheck doctor` on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import psycopg

from coatcheck.store.sqlite.database.schema import MIGRATIONS
from tests.cli.diagnosis import diagnose, of_area
from tests.cli.processes import run_to_end

ALL = ", ".join(f"{migration.number:03d} {migration.name}" for migration in MIGRATIONS)


def test_a_schema_that_is_not_there_is_left_so(dsn: str, schema: str, tmp_path: Path) -> None:
    found = diagnose(tmp_path, COATCHECK_DATABASE=dsn, COATCHECK_SCHEMA=schema)

    [(level, said)] = of_area(found, "migrations")
    assert (level, said) == ("problem", f"not applied yet: {ALL}")
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone()
    assert row == (None,)


def test_where_all_is_well(dsn: str, schema: str, tmp_path: Path) -> None:
    settings = {"COATCHECK_DATABASE": dsn, "COATCHECK_SCHEMA": schema}
    run_to_end("migrate", folder=tmp_path, **settings)

    found = diagnose(tmp_path, **settings)

    assert found["ok"] is True
    [(level, said)] = of_area(found, "store")
    assert (level, f"schema '{schema}' accepts writes" in said) == ("ok", True)
    assert of_area(found, "migrations") == [("ok", f"all {len(MIGRATIONS)} are applied")]
    assert [level for level, _ in of_area(found, "clock")] == ["ok", "ok"]
    assert of_area(found, "disk") == [], "the disk is the database server's"
    assert found["settings"]["database"] == "postgresql://(hidden)"


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    address = "postgresql://ada:swordfish@127.0.0.1:1/jobs"

    found = diagnose(tmp_path, COATCHECK_DATABASE=address)

    [(level, said)] = of_area(found, "store")
    assert (level, said) == (
        "problem",
        "PostgreSQL cannot be used right now: ConnectionRefusedError",
    )
