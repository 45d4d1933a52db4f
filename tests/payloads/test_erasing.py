"""P8: a purge leaves nothing. A word is planted wherever a job can say something; after a deletion
or the retention every file and table is searched for it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import httpx2
import pytest

from coatcheck.blobs.blobs import Blobs
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.errors import Gone
from coatcheck.http.app import create_http_app
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.sqlite import maintenance
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.store.webhooks import DeliveryFilter
from tests.http.arrange import connect

from .canary import HOOK, WORD, Ahead, declare, found_in, sing

pytestmark = pytest.mark.anyio


async def test_after_the_retention_nothing_is_left(
    store: SQLiteStore, blobs: Blobs, data: Path, tmp_path: Path
) -> None:
    clock = Ahead()
    app = declare(keep_succeeded="1h", keep_failed="1h")
    engine = Engine(store, app.kinds, clock, blobs=blobs)
    ended = await sing(engine, tmp_path / "scratch")
    assert len(found_in(data)) > 4, "it is in the database, its log and the blobs"
    assert found_in(tmp_path / "scratch") == []

    clock.ahead_ms = 3_700_000
    sweeper = Sweeper(store, clock, lease_s=30, sweep_s=5, payload_store=engine.payload_store)
    await sweeper.sweep()

    assert found_in(data) == []
    for job in ended:
        with pytest.raises(Gone):
            await engine.get(job.id)


async def test_after_deletions_nothing_is_left_and_the_receipts_say_so(
    store: SQLiteStore, blobs: Blobs, data: Path, tmp_path: Path
) -> None:
    engine = Engine(store, declare().kinds, blobs=blobs)
    ended = await sing(engine, tmp_path / "scratch", webhook=HOOK)
    told = await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT, job_id=ended[-1].id))
    assert len(told) >= 2
    async with connect(create_http_app(engine)) as http:
        receipts = [(await http.delete(f"/v1/jobs/{job.id}")).json() for job in ended]
        assert (await http.get(f"/v1/jobs/{ended[0].id}")).status_code == 410

    assert all(receipt["erased"] for receipt in receipts)
    removed = receipts[-1]["removed"]
    assert removed.pop("events") > 5
    assert removed == {
        "jobs": 1,
        "payloads": 2,
        "steps": 2,
        "messages": 1,
        "artifacts": 2,
        "uploads": 1,
        "blobs": 3,
        "deliveries": len(told),
    }
    assert await engine.webhooks.deliveries(DeliveryFilter(DEFAULT_TENANT)) == []
    assert found_in(data) == []


async def test_a_reader_that_stands_in_the_way_is_told_of(
    store: SQLiteStore, blobs: Blobs, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "ERASE_TIMEOUT_S", 0.0)
    engine = Engine(store, declare().kinds, blobs=blobs)
    ended = await sing(engine, tmp_path / "scratch", others=1)
    reader = apsw.Connection(str(data / "jobs.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM jobs").fetchone()
    receipts = [await engine.delete(job.id) for job in ended]
    assert not any(receipt.erased for receipt in receipts)
    assert found_in(data) != []

    reader.close()
    assert await store.maintenance.erase_deleted()
    assert found_in(data) == []


async def test_an_input_that_is_dropped_at_the_end_is_not_left_either(
    store: SQLiteStore, blobs: Blobs, data: Path, tmp_path: Path
) -> None:
    app = declare(drop_input_on_end=True)

    engine = Engine(store, app.kinds, blobs=blobs)
    ended = await sing(engine, tmp_path / "scratch", others=1)
    uploads = [path for path in found_in(data) if "uploads" in path]
    assert len(uploads) == 1, "until the sweep"
    sweeper = Sweeper(
        store, engine.clock, lease_s=30, sweep_s=5, payload_store=engine.payload_store
    )
    await sweeper.sweep()
    assert not [path for path in found_in(data) if "uploads" in path]
    async with connect(create_http_app(engine)) as http:
        answer: httpx2.Response = await http.post(f"/v1/jobs/{ended[0].id}/resume")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:coatcheck:input-gone")
        assert WORD in (await http.get(f"/v1/jobs/{ended[0].id}")).text, "the error is kept"


async def test_deleting_goes_on_while_others_write(
    store: SQLiteStore,
    blobs: Blobs,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        maintenance, "ERASE_TIMEOUT_S", 60.0
    )  # the machine may have other work, too
    engine = Engine(store, declare().kinds, blobs=blobs)
    ended = await sing(engine, tmp_path / "scratch")
    busy = True

    async def write() -> int:
        written = 0
        while busy:
            await store.maintenance.increment_counters({"busy": 1})
            written += 1
        return written

    writing = asyncio.create_task(write())
    receipts = [await engine.delete(job.id) for job in ended]
    busy = False
    assert await writing > 0
    assert all(receipt.erased for receipt in receipts)
    assert found_in(data) == []
