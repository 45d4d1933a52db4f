"""The operator's token is sent to a fixed list of paths, however a request is written."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from coatcheck.http.endpoint import Access, Endpoint
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.surfaces.foreman.upstream_paths import UPSTREAM_PATHS
from tests.surfaces.foreman.conftest import Serve
from tests.surfaces.foreman.faulty import answering

pytestmark = pytest.mark.anyio

TOKEN = "sesame"
MODELS = json.dumps(
    {"models": [{"name": "tiny:latest"}], "data": [{"id": "tiny"}], "done": True}
).encode()
BODY = json.dumps({"model": "tiny", "messages": [], "stream": False}).encode()
PARAMETER = re.compile(r"\{[^}]+\}")
# A model's name as Ollama writes it, no segment of which begins with a dot.
SHOWN_MODEL = re.compile(r"/v1/models(/[A-Za-z0-9_][A-Za-z0-9_.:-]*)+")
OURS = {"/jobs", "/jobs/{job_id}/artifacts/{file}", "/v1/models/{model:path}"}
ENDPOINTS = [
    each
    for each in ForemanSurface({"FOREMAN_OLLAMA_URL": "http://127.0.0.1:1"}).endpoints
    if each.access is not Access.PUBLIC
]
DECLARED = {each.path for each in ENDPOINTS if each.path not in OURS}
ESCAPES = (
    "%2e%2e/%2e%2e/api/delete",
    "..%2f..%2fapi%2fdelete",
    "../../api/delete",
    "%2e%2e",
    ".%2e/x",
    "x/%2e%2e/%2e%2e/%2e%2e/x",
    "%252e%252e/x",
    "..%5c..%5cx",
    "x%3fa=b",
    "x%23/..",
    "%2f%2fevil.example/x",
    "x%00",
    "x%0a",
    "x%0d%0aX-Smuggled:%201",
    "x%20HTTP/1.1%0d%0a%0d%0aGET%20/secret",
    "%ff%fe",
    "%c0%ae%c0%ae/x",
    "x;/../y",
    "x@evil.example",
    "",
)


class SeenRequest(NamedTuple):
    """A request line, and the headers below it, as bytes on the wire."""

    method: str
    target: str
    headers: str


class RecordingUpstream:
    """Answers every request alike and records its bytes."""

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    async def close(self) -> None:
        for writer in list(self._writers):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, _, headers = head.partition("\r\n")
                method, target, _version = line.split(" ")
                self.seen.append(SeenRequest(method, target, headers))
                length = re.search(r"content-length: (\d+)", headers, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(answering(200, MODELS))
        writer.close()


@contextlib.asynccontextmanager
async def recording() -> AsyncIterator[RecordingUpstream]:
    upstream = RecordingUpstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        try:
            yield upstream
        finally:
            await upstream.close()


async def send_raw(url: str, method: str, target: str, host: str | None = None) -> int:
    """Send a request whose target is not touched by a client library; return the status."""
    address, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    body = BODY if method == "POST" else b""
    head = f"{method} {target} HTTP/1.1\r\nHost: {host or address}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]) if answer else 0


def spellings(endpoint: Endpoint) -> Iterator[str]:
    """Write an endpoint's path in ways that a server, a proxy or the target may read otherwise."""
    plain = PARAMETER.sub("tiny", endpoint.path)
    yield plain
    for escape in ESCAPES:
        yield f"{plain}/{escape}"
        yield f"{plain}{escape}"
        yield PARAMETER.sub(lambda _, escape=escape: escape, endpoint.path)  # type: ignore[misc]
    yield plain.replace("/", "%2f")
    yield plain.replace("/", "//")
    yield f"/x/..{plain}"
    yield f"{plain}?a=../../x"


def is_expected(seen: SeenRequest) -> bool:
    """Tell whether a target is one of Ollama's that the surface declares, or a model's."""
    return seen.target in DECLARED or SHOWN_MODEL.fullmatch(seen.target) is not None


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
async def test_no_spelling_of_a_path_reaches_another_path(serve: Serve, endpoint: Endpoint) -> None:
    async with recording() as upstream, serve(upstream.url, ollama_token=TOKEN) as foreman:
        for method in {endpoint.method, "HEAD" if endpoint.method == "GET" else "POST"}:
            for target in spellings(endpoint):
                assert await send_raw(foreman.url, method, target) != 500, (method, target)
        strange = [each for each in upstream.seen if not is_expected(each)]
        assert strange == []
        assert all("smuggled" not in each.headers.lower() for each in upstream.seen)
        assert all(f"Bearer {TOKEN}" in each.headers for each in upstream.seen)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
async def test_host_header_does_not_change_the_path(serve: Serve, endpoint: Endpoint) -> None:
    async with recording() as upstream, serve(upstream.url, ollama_token=TOKEN) as foreman:
        plain = PARAMETER.sub("tiny", endpoint.path)
        for host in ("127.0.0.1/api/delete?", "127.0.0.1/api/delete#", "localhost/..", "@x/y"):
            await send_raw(foreman.url, endpoint.method, plain, host)
        assert [each for each in upstream.seen if not is_expected(each)] == []


@pytest.mark.parametrize(
    "model", ["tiny", "tiny:latest", "hf.co/team/Model-1.5_x:Q4_K_M", "host:5000/a/b", "a..b"]
)
async def test_model_is_fetched_by_its_name(serve: Serve, model: str) -> None:
    async with recording() as upstream, serve(upstream.url, ollama_token=TOKEN) as foreman:
        assert await send_raw(foreman.url, "GET", f"/v1/models/{model}") == 200
        assert f"/v1/models/{model}" in {each.target for each in upstream.seen}


async def test_invalid_model_name_is_rejected(serve: Serve) -> None:
    async with recording() as upstream, serve(upstream.url, ollama_token=TOKEN) as foreman:
        for name in ("..%2f..%2fx", ".hidden", "a/%2e%2e", "x" * 201, "a%20b", "a//b"):
            answer = await foreman.http.get(f"/v1/models/{name}")
            assert answer.status_code == 400, name
            assert answer.json()["error"]["message"] == "invalid model name"
        assert (await foreman.http.get("/v1/models/m1%00")).status_code == 404
        assert upstream.seen == []


def test_every_called_path_is_listed() -> None:
    """The list names each route of Ollama's that the surface serves, and nothing else."""
    assert DECLARED == UPSTREAM_PATHS
