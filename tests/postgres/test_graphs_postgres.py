"""Code graphs on PostgreSQL: of those who come together under one key, one makes the job."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.http.app import create_http_app
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.surfaces.graphs.surface import GraphSurface
from tests.http.arrange import connect, worker_info
from tests.payloads.canary import Ahead
from tests.surfaces.graphs.zips import zipped

pytestmark = pytest.mark.anyio


async def test_one_job_and_one_archive(store: PostgresStore, folder: Path) -> None:  # G08, G22
    app, surface, clock = App(), GraphSurface({}), Ahead()
    app.use(surface)
    blobs = Blobs(FileBucket(folder / "blobs"))
    engine = Engine(store, app.kinds, clock, blobs=blobs)
    headers = {"Idempotency-Key": "k", "Content-Type": "application/zip"}
    async with connect(create_http_app(engine, surfaces=[surface])) as http:
        posts = (
            http.post("/v1/graphs/call", content=zipped({f"{n}.py": b"x"}), headers=headers)
            for n in range(8)
        )
        answers = await asyncio.gather(*posts)
        assert {answer.status_code for answer in answers} == {202}
        [job_id] = {answer.json()["jobId"] for answer in answers}
        [job] = await engine.list_jobs(JobFilter(DEFAULT_TENANT))
        assert job.public_id == job_id
        assert len([path for path in (folder / "blobs").rglob("*") if path.is_file()]) == 1
        clock.ahead_ms = 3_600_000 + 1000
        await store.workers.register_worker(worker_info("w"))
        assert (await engine.claim("w", ["graph"], 1)).claims == []  # G14
        await Sweeper(
            store, clock, lease_s=30, sweep_s=5, payload_store=engine.payload_store
        ).sweep()
        said = (await http.post("/v1/graphs/call", headers=headers)).json()
        assert (said["status"], said["error"][:9]) == ("failed", "expired: ")
        assert [path for path in (folder / "blobs").rglob("*") if path.is_file()] == []
    blobs.close()
