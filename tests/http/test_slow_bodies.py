"""Bodies that stop coming, and bodies that are compressed."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx2
import pytest

from coatcheck.http.request import body as module
from tests.http.arrange import JSON, StoredJobs
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

GOOD = b'{"kind":"echo"}'


async def stops(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    await asyncio.Event().wait()


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches"])
@pytest.mark.parametrize("pieces", [(), (GOOD[:4],), (GOOD[:4], GOOD[4:8])])
async def test_a_body_that_stops_coming_is_not_waited_for(
    http: httpx2.AsyncClient,
    stored_jobs: StoredJobs,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    pieces: tuple[bytes, ...],
) -> None:
    assert module.PIECE_TIMEOUT_S == 20
    monkeypatch.setattr(module, "PIECE_TIMEOUT_S", 0.01)

    answer = await http.post(path, content=stops(*pieces), headers=JSON)

    read_problem(answer, 408, "timeout")
    assert answer.headers["connection"] == "close"
    assert await stored_jobs() == []


async def test_a_body_in_many_pieces_is_one_body(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(len(GOOD)):
            yield GOOD[at : at + 1]

    answer = await http.post("/v1/jobs", content=pieces(), headers=JSON)

    assert answer.status_code == 202
    assert len(await stored_jobs()) == 1


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "identity, gzip", "x"])
async def test_a_compressed_body_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, encoding: str
) -> None:
    headers = {**JSON, "Content-Encoding": encoding}

    answer = await http.post("/v1/jobs", content=gzip.compress(GOOD), headers=headers)

    problem = read_problem(answer, 415, "unsupported-media-type")
    assert "Content-Encoding" in problem["detail"]
    assert await stored_jobs() == []


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_a_body_that_says_it_is_not_compressed_is_taken(
    http: httpx2.AsyncClient, encoding: str
) -> None:
    headers = {**JSON, "Content-Encoding": encoding}

    assert (await http.post("/v1/jobs", content=GOOD, headers=headers)).status_code == 202
