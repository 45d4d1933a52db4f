"""A document from its submission to its search results."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from coatcheck.model.event import EventType
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.ingest.submit import MAX_INLINE_TOTAL
from tests.http.problems import read_problem

from .conftest import Serve
from .embedding_server import EmbeddingServer
from .ingest_server import Ingest, ingest_at
from .texts import long_text

pytestmark = pytest.mark.anyio

RECIPES = """# Bread

## Dough

Flour and water are mixed and left overnight, with a little yeast.

## Oven

Bake it at two hundred and thirty degrees until the crust sings.
"""


async def test_ingested_file_is_found(  # I02, I06, I07
    on_each_store: Serve, embedder: EmbeddingServer
) -> None:
    async with on_each_store() as ingest:
        answer = await ingest.send(("recipes/bread.md", RECIPES.encode()), collection="kitchen")
        assert answer.status_code == 202
        assert answer.headers["retry-after"]
        job = await ingest.finished(answer)
        result = job["result"]
        assert (result["name"], result["title"], result["format"]) == (
            "recipes/bread.md",
            "Bread",
            "markdown",
        )
        assert (result["unchanged"], result["superseded"], result["problems"]) == (False, False, [])
        assert await ingest.steps(job) == ["compare", "extract", "chunk", "embed", "publish"]

        for mode in ("text", "vector", "hybrid"):
            best, *_ = await ingest.search("crust degrees oven", "kitchen", mode=mode)
            assert "until the crust sings" in best["text"]
            assert RECIPES[best["start"] : best["end"]] == best["text"]
            assert best["document"] == {
                "id": result["document_id"],
                "name": "recipes/bread.md",
                "title": "Bread",
                "metadata": {},
            }


@pytest.mark.parametrize(
    ("content", "is_upload"),
    [
        (b"\xef\xbb\xbf# Bread\r\n\r\nFlour and w\xc3\xa4ter.\r\n", False),
        (b"# Bread\n\nFlour and w\xe4ter.\n", True),
        (b"# Bread\n\nFlour\0 and water.\n", True),
        (b"Flour and water. " * 1927 + b"ninebytes", False),
        (b"Flour and water. " * 1927 + b"ten bytes.", True),
        (b"", True),
    ],
    ids=["a text", "another encoding", "a zero", "just small", "not small", "nothing"],
)
async def test_small_texts_are_inline_and_other_files_uploads(
    serve: Serve, content: bytes, is_upload: bool
) -> None:
    async with serve(works=False) as ingest:
        job = (await ingest.send(("bread.md", content))).json()
        kept = await ingest.engine.store.files.list_uploads("default", job["id"])
        asked = json.loads(await ingest.engine.store.jobs.get_input("default", job["id"]))
    assert bool(kept) == is_upload
    assert asked["media_type"] == "text/markdown"
    if not is_upload:
        assert asked["text"].encode() == content


async def test_inline_texts_of_a_form_are_limited(serve: Serve) -> None:
    text = b"Flour and water. " * 1900
    files = [(f"{number}.md", text) for number in range(40)]
    async with serve(works=False) as ingest:
        answer = await ingest.send(*files)
        assert answer.status_code == 202, answer.text
        family = (await ingest.engine.list_jobs(JobFilter("default", limit=100)))[1:]
        uploads = [
            await ingest.engine.store.files.list_uploads("default", job.id) for job in family
        ]
    assert len(family) == 40
    assert sum(map(len, uploads)) == 40 - MAX_INLINE_TOTAL // len(text)


async def test_document_is_the_same_from_every_source(ingest: Ingest) -> None:
    first = await ingest.ingest_file("bread.md", RECIPES)
    told = {"text": RECIPES, "name": "bread.md"}
    again = (await ingest.finished(await ingest.http.post("/v1/ingest", json=told)))["result"]
    assert again["unchanged"]
    assert again["sha256"] == first["sha256"] == hashlib.sha256(RECIPES.encode()).hexdigest()
    assert again["size"] == first["size"] == len(RECIPES.encode())


async def test_text_with_metadata(ingest: Ingest) -> None:
    for year in ("2025", "2026"):
        asked = {
            "text": f"The yearly report about otters, of {year}.",
            "name": f"otters {year}",
            "collection": "reports",
            "metadata": {"year": year, "kind": "yearly"},
        }
        job = await ingest.finished(await ingest.http.post("/v1/ingest", json=asked))
        assert job["state"] == "succeeded", job
    found = await ingest.search("otters", "reports", filter="year:2026")
    assert [each["document"]["name"] for each in found] == ["otters 2026"]
    both = await ingest.search("otters", "reports", filter=["year:2026", "kind:daily"])
    assert both == []


async def test_unnamed_text_keeps_its_document(ingest: Ingest) -> None:
    first = await ingest.finished(
        await ingest.http.post("/v1/ingest", json={"text": "One and two."})
    )
    again = await ingest.finished(
        await ingest.http.post("/v1/ingest", json={"text": "One and two."})
    )
    assert first["result"]["document_id"] == again["result"]["document_id"]
    assert again["result"]["unchanged"] is True


async def test_unchanged_document_is_not_embedded_again(  # I05
    ingest: Ingest, embedder: EmbeddingServer
) -> None:
    await ingest.ingest_file("a.md", RECIPES)
    calls = len(embedder.calls)
    answer = await ingest.send(("a.md", RECIPES.encode()), metadata={"shelf": "3"})
    job = await ingest.finished(answer)
    assert (job["result"]["unchanged"], job["result"]["passages"]) == (True, 1)
    assert await ingest.steps(job) == ["compare"]
    assert len(embedder.calls) == calls
    assert len(await ingest.search("crust", filter="shelf:3")) == 1, "the metadata is updated"
    card = (await ingest.http.get(f"/v1/jobs/{job['id']}/card")).json()
    assert (card["percent"], [line["state"] for line in card["steps"]]) == (
        100,
        ["succeeded", "skipped", "skipped", "skipped", "skipped"],
    )


async def test_changed_document_replaces_the_old_one_atomically(
    on_each_store: Serve,
) -> None:
    async with on_each_store() as ingest:
        before = await ingest.ingest_file("a.md", long_text("before", 70))
        seen: list[set[str]] = []
        done = asyncio.Event()

        async def look() -> None:
            while not done.is_set():
                found = await ingest.search("before after stands", mode="text", k=100)
                seen.append({"before" if "before" in each["text"] else "after" for each in found})
                assert len(found) == 70

        looking = asyncio.create_task(look())
        after = await ingest.ingest_file("a.md", long_text("after", 70))
        done.set()
        await looking
        assert after["document_id"] == before["document_id"]
        assert all(len(each) == 1 for each in seen), "always exactly one version"
        assert seen[0] == {"before"}
        found = await ingest.search("before after stands", mode="text", k=100)
        assert all("after" in each["text"] for each in found)


async def test_replaying_a_finished_job_runs_no_steps(  # I05
    ingest: Ingest, embedder: EmbeddingServer
) -> None:
    answer = await ingest.send(("a.md", RECIPES.encode()), headers={"Idempotency-Key": "k"})
    job = await ingest.finished(answer)
    calls = len(embedder.calls)
    events = await ingest.engine.events(job["id"])
    steps = [each for each in events if each.type is EventType.STEP]

    resumed = await ingest.http.post(f"/v1/jobs/{job['id']}/resume")
    assert (resumed.status_code, resumed.json()["state"]) == (200, "succeeded")
    replayed = await ingest.send(("a.md", RECIPES.encode()), headers={"Idempotency-Key": "k"})
    assert replayed.status_code == 200
    assert replayed.headers["idempotency-replayed"] == "true"
    assert replayed.json()["id"] == job["id"]

    events = await ingest.engine.events(job["id"])
    assert [each for each in events if each.type is EventType.STEP] == steps
    assert len(embedder.calls) == calls
    other = await ingest.send(("a.md", b"another"), headers={"Idempotency-Key": "k"})
    read_problem(other, 422, "idempotency-key-reused")
    assert await uploads_left(ingest) == 0


async def uploads_left(ingest: Ingest) -> int:
    """Count the uploads that no job owns."""
    database = ingest.settings.database.removeprefix("sqlite:///")
    connection = apsw.Connection(database)
    try:
        found: Any = connection.execute("SELECT count(*) FROM uploads WHERE job_id IS NULL").get
        return int(found)
    finally:
        connection.close()


async def test_request_can_wait_for_the_result(ingest: Ingest) -> None:
    answer = await ingest.http.post(
        "/v1/ingest", json={"text": "Patience."}, headers={"Prefer": "wait=60"}, timeout=90
    )
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
    assert answer.headers["preference-applied"] == "wait=60"


async def test_fork_ingests_again_without_embedding(
    on_each_store: Serve, embedder: EmbeddingServer
) -> None:
    async with on_each_store() as ingest:
        text = long_text("otter", 70)
        job = await ingest.finished(await ingest.send(("a.md", text.encode())))
        fork = await ingest.http.post(f"/v1/jobs/{job['id']}/fork", json={"from_step": "publish"})
        forked = await ingest.finished(fork)
        assert forked["state"] == "succeeded", forked
        assert (forked["result"]["passages"], forked["result"]["superseded"]) == (70, False)
        for mode in ("text", "vector"):
            found = await ingest.search("otter stands", mode=mode, k=100)
            assert len({each["text"] for each in found}) == 70
        *passages, _question = embedder.times_embedded("otter")
        assert passages == [1] * 70


async def test_unreadable_file_fails_with_a_reason(ingest: Ingest) -> None:
    for name, content, code in (
        ("a.bin", bytes(range(256)) * 40, "document-unsupported"),
        ("b.pdf", b"%PDF-1.7 and then nothing", "document-damaged"),
        ("c.txt", b"", "document-empty"),
    ):
        job = await ingest.finished(await ingest.send((name, content)))
        assert (job["state"], job["error"]["code"]) == ("failed", code), job
        assert job["attempt"] == 1, "a retry would not help"
        card = (await ingest.http.get(f"/v1/jobs/{job['id']}/card")).json()
        assert card["message"] == job["error"]["message"]
        assert ("extract", "failed") in [(line["name"], line["state"]) for line in card["steps"]]
    assert (await ingest.http.get("/v1/collections")).json() == {"collections": []}


async def test_unreachable_embedder_is_retried(ingest: Ingest, embedder: EmbeddingServer) -> None:
    embedder.down = True
    came = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_call(_texts: list[str]) -> None:
        if len(embedder.calls) == 2:
            embedder.down = False
            loop.call_soon_threadsafe(came.set)

    embedder.on_call = on_call
    answer = await ingest.send(("a.md", RECIPES.encode()))
    async with asyncio.timeout(60):
        await came.wait()
    job = await ingest.finished(answer)
    assert (job["state"], job["attempt"]) == ("succeeded", 1), job


async def test_documents_are_listed_and_deleted(on_each_store: Serve) -> None:
    async with on_each_store() as ingest:
        made = {
            name: (await ingest.ingest_file(name, f"This is {name}.", collection="c"))[
                "document_id"
            ]
            for name in ("b.txt", "a.txt", "d/c.txt")
        }
        [collection] = (await ingest.http.get("/v1/collections")).json()["collections"]
        assert (collection["name"], collection["documents"]) == ("c", 3)
        names, cursor = [], ""
        while True:
            path = f"/v1/collections/c/documents?limit=2{cursor}"
            page = (await ingest.http.get(path)).json()
            names += [each["name"] for each in page["documents"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert names == ["a.txt", "b.txt", "d/c.txt"]

        shown = (await ingest.http.get(f"/v1/documents/{made['b.txt']}")).json()
        assert (shown["name"], shown["collection"], shown["size"]) == ("b.txt", "c", 14)
        assert (await ingest.http.delete(f"/v1/documents/{made['b.txt']}")).status_code == 204
        assert await names_of(ingest.http) == ["a.txt", "d/c.txt"]
        for path in (f"/v1/documents/{made['b.txt']}", "/v1/documents/none"):
            read_problem(await ingest.http.delete(path), 404, "not-found")
        found = await ingest.search("This is", "c", mode="text")
        assert {each["document"]["name"] for each in found} == {"a.txt", "d/c.txt"}


async def names_of(http: httpx2.AsyncClient) -> list[str]:
    page = (await http.get("/v1/collections/c/documents")).json()
    return [each["name"] for each in page["documents"]]


async def test_database_can_be_a_secret_reference(  # I14
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    """The process that reads a document gets neither the reference nor its value."""
    secret = tmp_path / "dsn"
    secret.write_text(settings.database)
    async with ingest_at(replace(settings, database=f"file:{secret}"), tmp_path) as ingest:
        assert "COATCHECK_DATABASE" not in os.environ
        await ingest.ingest_file("a.txt", "An apple.")
        assert len(await ingest.search("apple")) == 1
    assert (tmp_path / "jobs-search.db").exists()
