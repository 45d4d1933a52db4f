"""The same on PostgreSQL, where the promise is that no table has the word any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.webhooks import DeliveryFilter
from tests.payloads.canary import HOOK, SIGNS, Ahead, declare, found_in, sing

pytestmark = pytest.mark.anyio


async def tables_with_the_word(store: PostgresStore) -> list[str]:
    async def look(db: Any) -> list[str]:
        schema = store._sql.schema
        tables = await db.fetch(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = $1", schema
        )
        return [
            name
            for (name,) in tables
            if await db.fetchval(
                f'SELECT count(*) FROM "{schema}"."{name}" AS row WHERE row::text LIKE ANY($1)',
                [f"%{sign.decode()}%" for sign in SIGNS],
            )
        ]

    return await store._database.run(look)


async def test_after_the_retention_nothing_is_left(store: PostgresStore, tmp_path: Path) -> None:
    clock, data = Ahead(), tmp_path / "blobs"
    blobs = Blobs(FileBucket(data))
    app = declare(keep_succeeded="1h", keep_failed="1h")
    engine = Engine(store, app.kinds, clock, blobs=blobs)
    await sing(engine, tmp_path / "scratch")
    assert {"jobs", "steps", "events", "messages", "artifacts"} <= set(
        await tables_with_the_word(store)
    )

    clock.ahead_ms = 3_700_000
    sweeper = Sweeper(store, clock, lease_s=30, sweep_s=5, payload_store=engine.payload_store)
    await sweeper.sweep()

    assert await tables_with_the_word(store) == []
    assert found_in(data) == []
    blobs.close()


async def test_after_deletions_nothing_is_left(store: PostgresStore, tmp_path: Path) -> None:
    data = tmp_path / "blobs"
    blobs = Blobs(FileBucket(data))
    engine = Engine(store, declare().kinds, blobs=blobs)
    ended = await sing(engine, tmp_path / "scratch", webhook=HOOK)
    told = await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT, job_id=ended[-1].id))
    assert {"jobs", "events", "endpoints"} <= set(await tables_with_the_word(store))

    receipts = [await engine.delete(job.id) for job in ended]

    assert receipts[-1].deleted.deliveries == len(told) >= 2
    assert await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT)) == []
    assert await tables_with_the_word(store) == []
    assert found_in(data) == []
    blobs.close()
