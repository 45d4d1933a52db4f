"""Documents from URLs: public ones are fetched, others are rejected."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coatcheck.egress.policy import EgressPolicy
from coatcheck.errors import Fail, Retry
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.fetch import fetch_document
from tests.http.problems import read_problem

from .embedding_server import EmbeddingServer
from .ingest_server import Ingest, ingest_at

pytestmark = pytest.mark.anyio

PAGE = b"<html><head><title>Otters</title></head><body><h1>Otters</h1><p>They swim.</p></body>"
METADATA = "http://169.254.169.254/latest/meta-data/"


class Site:
    """A local site that records requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/page": (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE),
            "/moved": (302, {"Location": "/page"}, b""),
            "/away": (301, {"Location": METADATA}, b""),
            "/here": (307, {"Location": "http://localhost:1/"}, b""),
            "/file": (302, {"Location": "file:///etc/passwd"}, b""),
            "/circle": (302, {"Location": "/circle"}, b""),
            "/gone": (404, {}, b"no"),
            "/busy": (503, {}, b"later"),
            "/large": (200, {"Content-Type": "text/plain"}, b"x" * 5_000),
        }
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                status, headers, body = site.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    threading.Thread(target=site.http.serve_forever, daemon=True).start()
    yield site
    site.http.shutdown()
    site.http.server_close()


OPEN = EgressPolicy("127.0.0.1")


async def test_document_at_a_url_is_ingested(
    site: Site, settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    async with ingest_at(replace(settings, egress_allow="127.0.0.1"), tmp_path) as ingest:
        asked = {"url": f"{site.url}/moved", "name": "otters"}
        job = await ingest.finished(await ingest.http.post("/v1/ingest", json=asked))
        assert job["state"] == "succeeded", job
        assert (job["result"]["title"], job["result"]["format"]) == ("Otters", "html")
        steps = await ingest.steps(job)
        assert steps == ["fetch", "compare", "extract", "chunk", "embed", "publish"]
        assert site.asked == ["/moved", "/page"]
        [found] = await ingest.search("swim")
        assert found["document"]["name"] == "otters"
        card = (await ingest.http.get(f"/v1/jobs/{job['id']}/card")).json()
        assert [line["name"] for line in card["steps"]] == steps


async def test_private_url_is_rejected_on_submit(  # I15
    ingest: Ingest, site: Site
) -> None:
    denied = [f"{site.url}/page", METADATA, "http://localhost/x", "http://[::1]/", "file:///etc/x"]
    for url in denied:
        answer = await ingest.http.post("/v1/ingest", json={"url": url})
        read_problem(answer, 422, "egress-denied")
    assert site.asked == []


async def test_private_url_is_not_fetched_by_a_job(  # I15
    ingest: Ingest, site: Site
) -> None:
    """A job that is submitted directly was not checked, so the fetch must check it."""
    for url in (f"{site.url}/page", METADATA):
        asked = {"name": "x", "url": url}
        body = {"kind": "ingest.document", "input": asked}
        made = await ingest.http.post("/v1/jobs", json=body)
        job = await ingest.finished(made)
        assert (job["state"], job["error"]["code"]) == ("failed", "egress-denied")
    assert site.asked == []


@pytest.mark.parametrize("path", ["/away", "/here", "/file"])
async def test_redirect_to_a_private_url_is_not_followed(site: Site, path: str) -> None:  # I15
    with pytest.raises(Fail) as failed:
        await fetch_document(f"{site.url}{path}", OPEN, 10_000, 5)
    assert failed.value.code == "egress-denied"


async def test_permanent_fetch_errors_fail_the_job(site: Site) -> None:
    for path, code in (("/gone", "fetch-failed"), ("/circle", "fetch-failed")):
        with pytest.raises(Fail) as failed:
            await fetch_document(f"{site.url}{path}", OPEN, 10_000, 5)
        assert failed.value.code == code
    with pytest.raises(Fail) as failed:
        await fetch_document(f"{site.url}/large", OPEN, 4_999, 5)
    assert failed.value.code == "document-too-large"
    assert len((await fetch_document(f"{site.url}/large", OPEN, 5_000, 5)).content) == 5_000


async def test_transient_fetch_errors_are_retried(site: Site) -> None:
    with pytest.raises(Retry):
        await fetch_document(f"{site.url}/busy", OPEN, 10_000, 5)
    site.http.shutdown()
    with pytest.raises(Retry):
        await fetch_document(f"{site.url}/page", OPEN, 10_000, 0.2)
