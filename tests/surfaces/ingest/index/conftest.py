"""One index for each store; every test of the suite runs on both."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from coatcheck.ids import UlidGenerator
from coatcheck.surfaces.ingest.index.base import Index
from coatcheck.surfaces.ingest.index.postgres.index import PostgresIndex
from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex

from .library import Library

new_id = UlidGenerator()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class IndexLocation:
    """The location of an index, which can be opened any number of times."""

    def __init__(self, file: Path | None, dsn: str, schema: str) -> None:
        self.file = file
        self.dsn = dsn
        self.schema = schema

    def index(self, **settings: Any) -> Index:
        if self.file is not None:
            return SQLiteIndex(self.file, **settings)
        return PostgresIndex(self.dsn, schema=self.schema, connections=4, **settings)

    @asynccontextmanager
    async def library(self, **settings: Any) -> AsyncIterator[Library]:
        async with self.index(**settings) as index:
            yield Library(index)

    def settings(self) -> dict[str, str]:
        if self.file is not None:
            # The index is found next to the job database.
            jobs = self.file.with_name(self.file.name.removesuffix("-search.db") + ".db")
            return {"database": f"sqlite:///{jobs}", "schema": "coatcheck"}
        return {"database": self.dsn, "schema": self.schema}


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest) -> Iterator[IndexLocation]:
    if request.param == "sqlite":
        with tempfile.TemporaryDirectory(prefix="index-") as folder:
            yield IndexLocation(Path(folder) / "jobs-search.db", "", "")
        return
    dsn = request.getfixturevalue("dsn")
    schema = f"search_{new_id().lower()}"
    yield IndexLocation(None, dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@pytest.fixture
async def library(location: IndexLocation) -> AsyncIterator[Library]:
    async with location.library() as library:
        yield library
