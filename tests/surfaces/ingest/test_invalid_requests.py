"""Invalid requests are rejected and change nothing; other tenants' documents do not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from coatcheck.model.access import Scope
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.ingest.constants import KIND, MAX_FILES
from tests.http.problems import read_problem

from .conftest import Serve
from .embedding_server import EmbeddingServer
from .ingest_server import Ingest

pytestmark = pytest.mark.anyio


@pytest.fixture
async def idle(serve: Serve) -> AsyncIterator[Ingest]:
    """A server that accepts jobs and runs none."""
    async with serve(works=False) as ingest:
        yield ingest


async def nothing_is_left(ingest: Ingest) -> bool:
    jobs = await ingest.engine.list_jobs(JobFilter(DEFAULT_TENANT))
    blobs = await ingest.engine.store.files.start_blob_removal(2**62, 10)
    return not jobs and not blobs


SENSELESS: list[Any] = [
    {},
    [],
    {"text": 1},
    {"text": "a", "url": "https://example.com/"},
    {"text": "a", "file": {"upload": "x"}},
    {"text": "a", "tenant": "other"},
    {"text": "a", "collection": "no/name"},
    {"text": "a", "collection": ""},
    {"text": "a", "name": "two\nlines"},
    {"text": "a", "name": "n" * 2049},
    {"text": "a", "metadata": {"year": 2026}},
    {"text": "a", "metadata": {"a:b": "c"}},
    {"text": "a", "metadata": {f"k{n}": "v" for n in range(33)}},
]


async def test_invalid_json_requests_are_rejected(idle: Ingest) -> None:
    for body in SENSELESS:
        read_problem(await idle.http.post("/v1/ingest", json=body), 422, "invalid-payload")
    assert await nothing_is_left(idle)


FORMS: list[tuple[list[tuple[str, bytes]], dict[str, str], int]] = [
    ([], {"collection": "c"}, 400),
    ([("a", b"1")], {"colection": "c"}, 400),
    ([("a", b"1")], {"collection": "no/name"}, 422),
    ([("a", b"1")], {"metadata": "{"}, 400),
    ([("a", b"1")], {"metadata": "[]"}, 422),
    ([("a", b"1"), ("b", b"2")], {"name": "both"}, 400),
    ([("a", b"1"), ("a", b"2")], {}, 400),
    ([("a\u2028b", b"1")], {}, 422),
    ([("a", b"1"), ("..", b"2")], {}, 400),
    ([(f"f{n}", b"") for n in range(MAX_FILES + 1)], {}, 400),
]


@pytest.mark.parametrize("how", [b"", b"\xff"], ids=["texts", "uploads"])
async def test_invalid_forms_are_rejected(idle: Ingest, how: bytes) -> None:
    for files, fields, status in FORMS:
        sent = [("files", (name, how + content)) for name, content in files]
        parts: list[Any] = sent or [("files", (None, b"no file"))]
        answer = await idle.http.post("/v1/ingest", data=fields, files=parts)
        assert answer.status_code == status, (files[:2], fields, answer.text)
        assert await nothing_is_left(idle), (files[:2], fields)


async def test_other_content_types_are_rejected(idle: Ingest) -> None:
    for headers, content, status in (
        ({"Content-Type": "text/plain"}, b"hello", 415),
        ({"Content-Type": "multipart/form-data"}, b"hello", 400),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\n", 400),
        ({"Content-Type": "application/json"}, b"{", 400),
    ):
        answer = await idle.http.post("/v1/ingest", content=content, headers=headers)
        assert answer.status_code == status, (headers, answer.text)
    assert await nothing_is_left(idle)


async def test_total_size_of_files_is_limited(idle: Ingest) -> None:
    idle.engine.uploads.limit = 1_000
    answer = await idle.send(("a", b"x" * 600), ("b", b"x" * 600))
    read_problem(answer, 413, "too-large")
    assert await nothing_is_left(idle)
    assert (await idle.send(("a", b"x" * 600), ("b", b"x" * 300))).status_code == 202


QUERIES = [
    *("", "?q=", "?q=%20", "?q=%00", "?q=a&q=b", "?q=a&other=1", f"?q={'x' * 10_001}"),
    *("?q=a&k=0", "?q=a&k=101", "?q=a&k=x", "?q=a&mode=magic"),
    *("?q=a&filter=x", "?q=a&filter=:x"),
]


async def test_invalid_searches_are_rejected(idle: Ingest) -> None:
    for query in QUERIES:
        read_problem(await idle.http.get(f"/v1/collections/c/search{query}"), 400, "bad-request")


async def test_missing_documents_and_collections(idle: Ingest) -> None:
    for path in ("/v1/collections/c/search?q=a", "/v1/collections/c/documents"):
        read_problem(await idle.http.get(path), 404, "not-found")
    read_problem(await idle.http.get("/v1/documents/x"), 404, "not-found")
    bad = await idle.http.get("/v1/collections/c/documents?cursor=x")
    read_problem(bad, 400, "bad-request")


async def test_tenants_are_isolated_and_scopes_enforced(ingest: Ingest) -> None:
    keys = ingest.engine.authenticator

    async def key(tenant: str, *scopes: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {(await keys.create_key(tenant, scopes))[1]}"}

    ann = await key("ann", Scope.READ, Scope.WRITE)
    bob = await key("bob", Scope.READ, Scope.WRITE)
    reader = await key("ann", Scope.READ)
    others = await key("ann", "jobs:read:other", "jobs:write:other")
    mine = await key("ann", f"jobs:read:{KIND}", f"jobs:write:{KIND}")

    made = {}
    for headers, words in ((ann, "ann likes apples"), (bob, "bob likes apples")):
        asked = {"text": words, "name": "likes", "collection": "c"}
        answer = await ingest.http.post("/v1/ingest", json=asked, headers=headers)
        job = await ingest.finished(answer, **headers)
        made[words[:3]] = job["result"]["document_id"]
    assert made["ann"] != made["bob"]
    for headers, owner, stranger in ((ann, "ann", "bob"), (bob, "bob", "ann")):
        [found] = await ingest.search("apples", "c", headers=headers)
        assert found["text"].startswith(owner)
        [collection] = (await ingest.http.get("/v1/collections", headers=headers)).json()[
            "collections"
        ]
        assert collection["documents"] == 1
        for call in (ingest.http.get, ingest.http.delete):
            path = f"/v1/documents/{made[stranger]}"
            read_problem(await call(path, headers=headers), 404, "not-found")

    await check_scopes(ingest.http, made["ann"], reader, others, mine)


async def check_scopes(
    http: httpx2.AsyncClient,
    document: str,
    reader: dict[str, str],
    others: dict[str, str],
    mine: dict[str, str],
) -> None:
    asked = {"text": "more", "collection": "c"}
    for headers in (reader, others):
        read_problem(await http.post("/v1/ingest", json=asked, headers=headers), 403, "forbidden")
        read_problem(
            await http.delete(f"/v1/documents/{document}", headers=headers), 403, "forbidden"
        )
    reads = ("/v1/collections", "/v1/collections/c/search?q=a", "/v1/collections/c/documents")
    for path in reads:
        assert (await http.get(path, headers=reader)).status_code == 200
        assert (await http.get(path, headers=mine)).status_code == 200
        read_problem(await http.get(path, headers=others), 403, "forbidden")
        read_problem(await http.get(path), 401, "unauthorized")
    two = [("files", ("a", b"1")), ("files", ("b", b"2"))]
    assert (await http.post("/v1/ingest", files=two, headers=mine)).status_code == 202
    assert (await http.delete(f"/v1/documents/{document}", headers=mine)).status_code == 204


async def test_collection_rejects_another_embedder(
    serve: Serve, embedder: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as ingest:
        await ingest.ingest_file("a.txt", "An apple.")
    monkeypatch.setenv("INGEST_EMBED_MODEL", "another")
    async with serve() as ingest:
        job = await ingest.finished(await ingest.send(("b.txt", b"A banana.")))
        assert (job["state"], job["error"]["code"]) == ("failed", "embedder-mismatch")
        found = await ingest.http.get("/v1/collections/default/search?q=apple")
        read_problem(found, 409, "embedder-mismatch")
        assert len(await ingest.search("apple", mode="text")) == 1
