"""The gate to production: the cockpit on PostgreSQL, in the production profile, over documents."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from coatcheck.surfaces.ingest.constants import BATCH
from tests.cli.processes import run_to_end, running
from tests.surfaces.ingest.embedding_server import EmbeddingServer
from tests.surfaces.ingest.texts import long_text

from .conftest import PATIENTLY, come_in, state

pytestmark = PATIENTLY

PASSAGES = BATCH + 10
STEPS = ["compare", "extract", "chunk", "embed", "embed", "publish"]


@dataclass(frozen=True)
class Production:
    """A server as it runs in production, and who embeds for it."""

    url: str
    key: str
    embedder: EmbeddingServer

    def ask(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = httpx2.request(method, self.url + path, headers=headers, timeout=90, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def ingest(self, name: str) -> str:
        """Hand a document in, and return its job."""
        files = {"files": (f"{name}.md", long_text(name, PASSAGES).encode())}
        return str(self.ask("POST", "/v1/ingest", files=files)["id"])

    def steps(self, job: str) -> list[str]:
        return [step["name"] for step in self.ask("GET", f"/v1/jobs/{job}/steps")["steps"]]


@pytest.fixture
def production(dsn: str, tmp_path: Path) -> Iterator[Production]:
    schema = f"production_{os.getpid()}"
    secrets = {"dsn": dsn, "pepper": "a pepper of sixteen characters or more"}
    for name, secret in secrets.items():
        (tmp_path / name).write_text(secret)
        (tmp_path / name).chmod(0o600)
    with EmbeddingServer() as embedder:
        settings = {
            "COATCHECK_PROFILE": "production",
            "COATCHECK_DATABASE": f"file:{tmp_path}/dsn",
            "COATCHECK_PEPPER": f"file:{tmp_path}/pepper",
            "COATCHECK_SCHEMA": schema,
            "COATCHECK_BLOBS": (tmp_path / "blobs").as_uri(),
            **embedder.environment,
        }
        made = run_to_end("keys", "create", "--json", folder=tmp_path, **settings)
        assert made.returncode == 0, made.stderr
        with running("serve", "--port", "0", folder=tmp_path, **settings) as server:
            yield Production(server.url(), json.loads(made.stdout)["key"], embedder)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@pytest.fixture
def cockpit(context: BrowserContext, production: Production) -> Page:
    page = context.new_page()
    page.goto(f"{production.url}/ui")
    come_in(page, production.key)
    return page


# I19
def test_documents_are_listed_cancelled_and_forked_from_the_cockpit(
    cockpit: Page, production: Production
) -> None:
    embedder = production.embedder
    held, go_on = threading.Event(), threading.Event()

    def on_call(texts: list[str]) -> None:
        if any("otter" in text for text in texts):
            held.set()
            go_on.wait(60)

    embedder.on_call = on_call
    done = production.ingest("badger")
    assert production.ask("GET", f"/v1/jobs/{done}?wait=60")["state"] == "succeeded"
    stopped = production.ingest("otter")
    assert held.wait(60)

    cockpit.goto(f"{production.url}/ui#/jobs")
    jobs = cockpit.get_by_role("region", name="Jobs", exact=True)
    for job in (done, stopped):
        expect(jobs).to_contain_text(job)

    cockpit.goto(f"{production.url}/ui#/jobs/{stopped}")
    state(cockpit, "running")
    cockpit.get_by_role("button", name="Cancel").click()
    state(cockpit, "cancelled")
    go_on.set()
    cockpit.get_by_role("button", name="Resume").click()
    state(cockpit, "succeeded")
    assert production.steps(stopped) == STEPS

    cockpit.goto(f"{production.url}/ui#/jobs/{done}")
    cockpit.get_by_role("button", name="Fork from publish").click()
    cockpit.get_by_role("dialog").get_by_role("button", name="Fork").click()
    expect(cockpit.get_by_text("Forked from")).to_be_visible()
    state(cockpit, "succeeded")
    fork = cockpit.url.rpartition("/")[2]
    assert production.ask("GET", f"/v1/jobs/{fork}")["forked_from"] == done
    assert production.steps(fork) == STEPS
    assert embedder.times_embedded("badger") == [1] * PASSAGES, "the fork repeated none of it"
    found = production.ask("GET", "/v1/collections/default/search?q=badger7&mode=text")["results"]
    assert len(found) == 1
