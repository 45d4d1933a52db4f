"""The surface on each store, with a counting embedder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from coatcheck.ids import UlidGenerator
from coatcheck.settings import Settings

from .embedding_server import EmbeddingServer
from .ingest_server import Ingest, ingest_at

new_id = UlidGenerator()

Serve = Callable[..., AbstractAsyncContextManager[Ingest]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    """A local embedding endpoint."""
    with EmbeddingServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    database = f"sqlite:///{tmp_path}/jobs.db"
    return Settings(database=database, pepper="p" * 32, processes=1, drain_s=0)


@pytest.fixture
def serve(settings: Settings, tmp_path: Path, embedder: EmbeddingServer) -> Serve:
    def serving(**options: Any) -> AbstractAsyncContextManager[Ingest]:
        return ingest_at(settings, tmp_path, **options)

    return serving


@pytest.fixture
async def ingest(serve: Serve) -> AsyncIterator[Ingest]:
    async with serve() as ingest:
        yield ingest


@pytest.fixture(params=["sqlite", "postgres"])
def on_each_store(
    request: pytest.FixtureRequest, settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> Iterator[Serve]:
    """Serve on SQLite and on PostgreSQL."""
    dsn, schema = "", f"ingest_{new_id().lower()}"
    if request.param == "postgres":
        dsn = request.getfixturevalue("dsn")
        settings = Settings(
            database=dsn,
            schema=schema,
            blobs=(tmp_path / "blobs").as_uri(),
            processes=1,
            drain_s=0,
        )

    def serving(**options: Any) -> AbstractAsyncContextManager[Ingest]:
        return ingest_at(settings, tmp_path, **options)

    yield serving
    if dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
