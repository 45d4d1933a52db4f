"""Sealing anew on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from coatcheck.settings import Settings
from tests.payloads.look_alikes import mimicked, read_back, reseal_all
from tests.payloads.resealed import BOTH, NEW, OLD, everything, fill, opened, reseal, sealed_with

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("keys", ["", OLD])
async def test_user_text_that_looks_encrypted_is_no_obstacle(
    dsn: str, schema: str, tmp_path: Path, keys: str
) -> None:
    settings = Settings(
        database=dsn,
        schema=schema,
        blobs=f"file://{tmp_path}/blobs",
        connections=4,
        pepper="p" * 32,
    )
    before = replace(settings, encryption_keys=keys)
    ids = await mimicked(before, tmp_path / "scratch")
    jobs = await read_back(before, ids)
    both = replace(settings, encryption_keys=BOTH)
    assert await read_back(both, ids) == jobs
    assert await reseal_all(both) == (0, 0)
    assert await read_back(replace(settings, encryption_keys=NEW), ids) == jobs
