"""Replicas that clean up the same store at the same time: a lost race is normal and silent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.http.app import create_http_app
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.graphs.surface import GraphSurface
from tests.http.arrange import connect
from tests.payloads.canary import Ahead
from tests.postgres.schemas import Schemas
from tests.store.template import migrated

from .conftest import Graphs
from .zips import zipped

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
REPLICAS = 3
JOBS = 250
ARCHIVE = zipped({"main.py": b"def f():\n    pass\n"})

Replica = Callable[[Ahead], AbstractAsyncContextManager[Graphs]]


@pytest.fixture(params=["sqlite", "postgres"])
def replica(request: pytest.FixtureRequest, tmp_path: Path) -> Replica:
    """Return what opens one more replica on one store."""
    new_store: Callable[[], Store]
    if request.param == "sqlite":
        file = migrated(tmp_path / "jobs.db")

        def new_store() -> Store:
            return SQLiteStore(file)
    else:
        dsn: str = request.getfixturevalue("dsn")
        schemas: Schemas = request.getfixturevalue("schemas")
        schema = schemas.lend()
        request.addfinalizer(lambda: schemas.take_back(schema))

        def new_store() -> Store:
            return PostgresStore(dsn, schema=schema, connections=4, poll_s=60)

    settings = Settings(database=f"sqlite:///{tmp_path}/jobs.db", blobs=(tmp_path / "b").as_uri())

    @contextlib.asynccontextmanager
    async def opened(clock: Ahead) -> AsyncIterator[Graphs]:
        app, surface = App(), GraphSurface({})
        app.use(surface)
        store, blobs = new_store(), blobs_for(settings)
        await store.open()
        engine = Engine(store, app.kinds, clock, blobs=blobs, pepper=lambda: b"p" * 32)
        try:
            async with connect(create_http_app(engine, surfaces=[surface])) as http:
                yield Graphs(http, engine, clock, tmp_path)
        finally:
            await store.close()
            blobs.close()

    return opened


async def sweep_all(replicas: list[Graphs]) -> None:
    """Have every replica sweep at once, a few times over."""
    sweepers = [
        Sweeper(
            one.engine.store,
            one.clock,
            lease_s=30,
            sweep_s=5,
            payload_store=one.engine.payload_store,
        )
        for one in replicas
    ]
    for _ in range(3):
        await asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))


async def test_cleaning_up_at_once_is_silent(  # G32
    replica: Replica, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Ahead()
    async with contextlib.AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(replica(clock)) for _ in range(REPLICAS)]
        for number in range(JOBS):
            answer = await replicas[0].post("call", ARCHIVE, key=f"k{number}")
            assert answer.status_code == 202, answer.text
        caplog.set_level(logging.INFO)
        for ahead in (HOUR_MS + 1000, 8 * DAY_MS, 16 * DAY_MS):
            clock.ahead_ms = ahead
            await sweep_all(replicas)
        assert (await replicas[0].http.get("/v1/jobs")).json()["jobs"] == []
    loud = [one for one in caplog.records if one.levelno >= logging.WARNING or one.exc_info]
    assert loud == []
    assert [path for path in (tmp_path / "b").rglob("*") if path.is_file()] == []
