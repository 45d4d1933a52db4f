"""Sealing anew on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from coatcheck.settings import Settings
from tests.payloads.resealed import NEW, OLD, everything, fill, opened, reseal, sealed_with

pytestmark = pytest.mark.anyio

BOTH = f"{NEW},{OLD}"


def old_seals(dsn: str, schema: str) -> int:
    """Count rows with something in them that the old key has sealed."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [schema]
        ).fetchall()
        return sum(
            repr(row).count("sealed:v1:a:")
            for (table,) in tables
            for row in connection.execute(f'SELECT * FROM "{schema}"."{table}"').fetchall()
        )


async def test_all_of_it_can_be_read_with_the_new_key_alone(
    dsn: str, schema: str, tmp_path: Path
) -> None:
    data = tmp_path / "blobs"
    settings = Settings(database=dsn, schema=schema, blobs=f"file://{data}", connections=4)
    async with opened(settings, OLD) as engine:
        ids = await fill(engine, tmp_path / "scratch")
        before = await everything(engine, ids)
    assert old_seals(dsn, schema) > 20

    async with opened(settings, BOTH) as engine:
        done = await reseal(settings, BOTH, engine)
    assert done.left == 0
    assert old_seals(dsn, schema) == 0
    assert sealed_with("a", data) == []
    async with opened(settings, NEW) as engine:
        assert await everything(engine, ids) == before
