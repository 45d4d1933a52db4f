"""A store that cannot answer: 503 and when to come back, never 500."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import JSON, connect
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

JOB = "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
async def http_without_store(tmp_path: Path, gate: Gate) -> AsyncIterator[httpx2.AsyncClient]:
    """The API after its store has closed."""
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    engine = Engine(store, declare_kinds(gate).kinds)
    await engine.authenticator.refresh_epoch()  # as a server does when it starts
    await store.close()
    async with connect(create_http_app(engine)) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/jobs"), ("GET", JOB), ("GET", JOB + "?wait=60"), ("POST", JOB + "/cancel")],
)
async def test_what_needs_the_store_is_answered_with_when_to_come_back(
    http_without_store: httpx2.AsyncClient, method: str, path: str
) -> None:
    content = b'{"kind":"echo"}' if path == "/v1/jobs" else b""

    answer = await http_without_store.request(method, path, content=content, headers=JSON)

    read_problem(answer, 503, "store-unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_what_is_wrong_anyway_is_refused_without_asking_the_store(
    http_without_store: httpx2.AsyncClient,
) -> None:
    answer = await http_without_store.post("/v1/jobs", json={"kind": "no_such_kind"})

    read_problem(answer, 422, "unknown-kind")


async def test_the_process_is_alive_although_its_store_is_not(
    http_without_store: httpx2.AsyncClient,
) -> None:
    answer = await http_without_store.get("/healthz")

    assert answer.status_code == 200
