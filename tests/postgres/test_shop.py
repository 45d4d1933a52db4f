"""The example of the how-to on transactions, as it stands there."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import asyncpg
import pytest

from coatcheck.store.postgres.store import PostgresStore
from tests.docs.pages import ROOT, write_python_files

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs/how-to/transactional-enqueue.md"


async def test_the_shop_of_the_how_to(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_python_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shop = importlib.import_module("shop")
    async with database_of_its_own(dsn) as own:
        await _place_orders(own, shop)


@asynccontextmanager
async def database_of_its_own(dsn: str) -> AsyncIterator[str]:
    """Make a database for one test: the server may have a schema of that name that is in use."""
    name = f"shop_{os.getpid()}"
    admin = await asyncpg.connect(dsn)
    await admin.execute(f"CREATE DATABASE {name}")
    try:
        parts = urlsplit(dsn)
        yield f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


async def _place_orders(dsn: str, shop: ModuleType) -> None:
    connection = await asyncpg.connect(dsn)
    store = PostgresStore(dsn)  # the schema an application would use
    await store.open()
    try:
        await connection.execute("CREATE TEMPORARY TABLE orders (id serial, product text NOT NULL)")
        job = await store.jobs.get("default", await shop.place_order(connection, "coat"))
        assert job.kind == "confirm"
        with pytest.raises(asyncpg.NotNullViolationError):
            await shop.place_order(connection, None)
        (queue,) = await store.queues.list_queues()
        assert queue.ready == 1
    finally:
        await store.close()
        await connection.close()
