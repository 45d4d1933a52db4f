"""The example of the how-to on transactions, as it stands there."""

from __future__ import annotations

import importlib
from pathlib import Path

import asyncpg
import pytest

from coatcheck.store.postgres.store import PostgresStore
from tests.docs.pages import ROOT, write_python_files

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs/how-to/enqueue-in-your-transaction.md"


async def test_the_shop_of_the_how_to(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_python_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shop = importlib.import_module("shop")
    connection = await asyncpg.connect(dsn)
    store = PostgresStore(dsn)  # the schema an application would use
    await store.open()
    try:
        await connection.execute("CREATE TEMPORARY TABLE orders (id serial, product text NOT NULL)")
        job = await store.get("default", await shop.place_order(connection, "coat"))
        assert job.kind == "confirm"
        with pytest.raises(asyncpg.NotNullViolationError):
            await shop.place_order(connection, None)
        (queue,) = await store.queues()
        assert queue.ready == 1
    finally:
        await store.close()
        await connection.execute("DROP SCHEMA coatcheck CASCADE")
        await connection.close()
