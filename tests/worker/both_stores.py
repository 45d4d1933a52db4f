"""A `store` fixture that runs a test on SQLite and on PostgreSQL: import it to use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coatcheck.store.base import Store
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.sqlite.store import SQLiteStore
from tests.postgres.schemas import Schemas
from tests.store.template import migrated


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store of either kind."""
    if request.param == "sqlite":
        embedded = SQLiteStore(migrated(tmp_path / "jobs.db"))
        await embedded.open()
        yield embedded
        await embedded.close()
        return
    dsn: str = request.getfixturevalue("dsn")
    schemas: Schemas = request.getfixturevalue("schemas")
    schema = schemas.lend()
    store = PostgresStore(dsn, schema=schema, connections=6, poll_s=60)
    await store.open()
    yield store
    await store.close()
    schemas.take_back(schema)
