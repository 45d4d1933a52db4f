"""With a key configured no table has anything in clear that users hand in or handlers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coatcheck.settings import Settings
from tests.payloads.canary import found_in
from tests.payloads.resealed import OLD, everything, fill, opened

from .test_erasing_postgres import tables_with_the_word

pytestmark = pytest.mark.anyio


async def test_nothing_can_be_read_without_the_key(dsn: str, schema: str, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    settings = Settings(database=dsn, schema=schema, blobs=f"file://{blobs}", connections=4)
    async with opened(settings, OLD) as engine:
        ids = await fill(engine, tmp_path / "scratch")
        below: Any = engine.store.inner  # type: ignore[attr-defined]  # has no key

        assert await tables_with_the_word(below) == []
        assert found_in(blobs) == []
        assert "canary" in repr(await everything(engine, ids))


async def test_the_look_is_worth_something(dsn: str, schema: str, tmp_path: Path) -> None:
    """Without a key the word is found wherever it was said."""
    where = f"file://{tmp_path}/blobs"
    settings = Settings(database=dsn, schema=schema, blobs=where, connections=4, pepper="p" * 16)
    async with opened(settings, "") as engine:
        await fill(engine, tmp_path / "scratch")
        below: Any = engine.store.inner  # type: ignore[attr-defined]  # has no key
        said_in = {"jobs", "steps", "events", "messages", "artifacts", "schedules"}
        assert said_in <= set(await tables_with_the_word(below))
    assert found_in(tmp_path / "blobs") != []
