"""`GET /readyz`: whether jobs can be taken in."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


async def test_it_is_ready_when_the_store_takes_a_write(
    http: httpx2.AsyncClient, store: SQLiteStore
) -> None:
    answer = await http.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ready"}
    assert (await store.maintenance.read_counters())["pings"] == 1


async def test_it_is_not_while_the_store_is_down_though_it_lives(
    http: httpx2.AsyncClient, engine: Engine, store: SQLiteStore
) -> None:
    await engine.authenticator.refresh_epoch()  # as a server does when it starts
    await store.close()

    answer = await http.get("/readyz")

    read_problem(answer, 503, "store-unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert (await http.get("/healthz")).status_code == 200
    for path in ("/metrics", "/v1/jobs", "/v1/queues", "/v1/jobs/x/events", "/v1/jobs/x/result"):
        read_problem(await http.get(path), 503, "store-unavailable")
    for path in ("/v1/kinds", "/openapi.json", "/docs"):
        assert (await http.get(path)).status_code == 200
    batch = await http.post("/v1/batches", json={"jobs": [{"kind": "echo"}]})
    read_problem(batch, 503, "store-unavailable")
    read_problem(await http.delete("/v1/jobs/x"), 503, "store-unavailable")
    read_problem(await http.post("/v1/queues/a/pause"), 503, "store-unavailable")


async def test_it_is_not_once_the_server_is_about_to_stop(
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    engine.release_waiters()

    answer = await http.get("/readyz")

    read_problem(answer, 503, "stopping")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/kinds", "/v1/queues"])
async def test_they_have_heads(http: httpx2.AsyncClient, path: str) -> None:
    assert (await http.head(path)).status_code == 200
