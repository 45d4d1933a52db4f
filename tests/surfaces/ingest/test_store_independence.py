"""The responses are the same on another store and with another kind of process."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from coatcheck import App
from coatcheck.ids import UlidGenerator
from coatcheck.model.kind import Isolation
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.constants import KIND

from .embedding_server import EmbeddingServer
from .greeting import greet
from .ingest_server import Ingest, ingest_at

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

QUEUES = ("default", "ingest")

new_id = UlidGenerator()

ID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z")
# Durations and estimates, and values that are unique to each request.
OTHER_EACH_TIME = {"ms", "eta_s", "correlation_id"}


class Conversation:
    """Records requests and responses, with ids numbered in order and without times."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._ids: dict[str, str] = {}
        self.told: list[Any] = []

    async def call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        answer = await self._ingest.http.request(method, path, **more)
        said = answer.json() if answer.content else None
        self.told.append((method, self._plain(path), answer.status_code, self._plain(said)))
        return answer

    async def submit(self, path: str, *, cancelled: bool = False, **more: Any) -> str:
        """Submit a job while no worker runs, then record its outcome."""
        engine = self._ingest.engine
        for queue in QUEUES:
            await engine.pause_queue(queue)
        answer = await self.call("POST", path, **more)
        job = str(answer.headers["location"])
        if cancelled:
            await self.call("POST", f"{job}/cancel")
        for queue in QUEUES:
            await engine.resume_queue(queue)
        await self._ingest.finished(answer)
        await self.call("GET", job)
        return job

    def _plain(self, value: Any) -> Any:
        match value:
            case dict():
                return {
                    name: None if name in OTHER_EACH_TIME else self._plain(each)
                    for name, each in value.items()
                }
            case list():
                return [self._plain(each) for each in value]
            case str():
                return ID.sub(self._number, TIME.sub("then", value))
        return value

    def _number(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"id{len(self._ids)}")


async def converse(ingest: Ingest) -> list[Any]:
    """Ingest documents, read them, search, cancel, fork, delete, and send invalid requests."""
    calls = Conversation(ingest)
    await calls.call("GET", "/openapi.json")
    greeted = await calls.submit("/v1/jobs", json={"kind": "greet", "input": "Ada"})
    files = [("files", ("bread.md", b"# Bread\n\nBake it until the crust sings."))]
    bread = await calls.submit("/v1/ingest", files=files)
    for path in ("/card", "/steps", "/result"):
        await calls.call("GET", bread + path)
        await calls.call("GET", greeted + path)
    tea = {"text": "Tea is poured at five.", "name": "tea", "metadata": {"drink": "yes"}}
    await calls.submit("/v1/ingest", json=tea)
    await calls.submit("/v1/ingest", json=tea)  # unchanged
    await calls.submit(f"{bread}/fork", json={"from_step": "chunk"})
    await calls.submit("/v1/ingest", json={"text": "Never mind.", "name": "no"}, cancelled=True)
    for state in ("succeeded", "cancelled"):
        await calls.call("GET", f"/v1/jobs?state={state}&kind={KIND}")
    for mode in ("text", "vector", "hybrid"):
        await calls.call("GET", f"/v1/collections/default/search?q=crust+sings&k=1&mode={mode}")
    await calls.call("GET", "/v1/collections/default/search?q=tea&filter=drink:no")
    page = await calls.call("GET", "/v1/collections/default/documents")
    gone = page.json()["documents"][0]["id"]
    for _ in range(2):
        await calls.call("DELETE", f"/v1/documents/{gone}")
    await calls.call("GET", "/v1/collections")
    await calls.call("POST", "/v1/ingest", json={"text": 1})
    await calls.call("POST", "/v1/ingest", json={"text": "a", "collection": "no/such"})
    await calls.call("GET", "/v1/collections/none/search?q=a")
    await calls.call("GET", f"/v1/jobs/{new_id()}")
    return calls.told


# I16
@pytest.mark.parametrize(
    ("store", "elsewhere", "of_documents"),
    [("postgres", "process", "process"), ("sqlite", "thread", "async")],
    ids=["another store", "other executors"],
)
async def test_store_and_executor_do_not_affect_responses(
    request: pytest.FixtureRequest,
    settings: Settings,
    tmp_path: Path,
    embedder: EmbeddingServer,
    store: str,
    elsewhere: Isolation,
    of_documents: Isolation,
) -> None:
    expected = await responses_on(settings, tmp_path / "as shipped", "process", "process")
    swapped = replace(settings, database=f"sqlite:///{tmp_path}/swapped.db")
    dsn, schema = "", f"swapped_{new_id().lower()}"
    if store == "postgres":
        dsn = request.getfixturevalue("dsn")
        blobs = (tmp_path / "blobs").as_uri()
        swapped = replace(settings, database=dsn, schema=schema, blobs=blobs)
    try:
        found = await responses_on(swapped, tmp_path / "swapped", elsewhere, of_documents)
    finally:
        if dsn:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    assert len(expected) > 25
    for one, same in zip(expected, found, strict=True):
        assert one == same


async def responses_on(
    settings: Settings, folder: Path, of_greetings: Isolation, of_documents: Isolation
) -> list[Any]:
    """Return the responses on a store, with handlers in these places."""
    app = App()
    app.job(retries=0, isolation=of_greetings)(greet)
    async with ingest_at(settings, folder, app=app, isolation=of_documents) as ingest:
        return await converse(ingest)
