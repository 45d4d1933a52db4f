"""Bodies over 1 MiB: refused without being read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from coatcheck.http.request.body import JSON_LIMIT
from tests.http.arrange import JSON, StoredJobs
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

PIECE = 64 * 1024


class Body:
    """A body that is made as it is pulled, and counts how much of it was."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.pulled = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.pulled < self._size:
            piece = b" " * min(PIECE, self._size - self.pulled)
            self.pulled += len(piece)
            yield piece


async def test_a_body_declared_too_large_is_refused_before_any_of_it_is_read(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    body = Body(JSON_LIMIT + 1)
    headers = {**JSON, "Content-Length": str(JSON_LIMIT + 1)}

    answer = await http.post("/v1/jobs", content=body, headers=headers)

    detail = read_problem(answer, 413, "too-large")["detail"]
    assert "1,048,576" in detail
    assert body.pulled == 0
    assert answer.headers["connection"] == "close", "the rest is not waited for"
    assert await stored_jobs() == []


async def test_a_body_that_declares_nothing_is_read_up_to_the_limit_only(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    body = Body(100 * JSON_LIMIT)

    answer = await http.post("/v1/jobs", content=body, headers=JSON)

    assert "content-length" not in answer.request.headers
    read_problem(answer, 413, "too-large")
    assert JSON_LIMIT < body.pulled <= JSON_LIMIT + PIECE
    assert await stored_jobs() == []


async def test_a_body_that_declares_less_than_it_has_is_read_up_to_the_limit_only(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    body = Body(100 * JSON_LIMIT)

    answer = await http.post("/v1/jobs", content=body, headers={**JSON, "Content-Length": "10"})

    read_problem(answer, 413, "too-large")
    assert body.pulled <= JSON_LIMIT + PIECE
    assert await stored_jobs() == []


async def test_a_body_of_the_wrong_type_is_refused_before_any_of_it_is_read(
    http: httpx2.AsyncClient,
) -> None:
    body = Body(JSON_LIMIT)

    answer = await http.post("/v1/jobs", content=body, headers={"Content-Type": "text/plain"})

    read_problem(answer, 415, "unsupported-media-type")
    assert body.pulled == 0


async def test_a_body_of_exactly_the_limit_is_taken(http: httpx2.AsyncClient) -> None:
    start, end = b'{"kind":"echo","input":"', b'"}'
    body = start + b"x" * (JSON_LIMIT - len(start) - len(end)) + end
    assert len(body) == JSON_LIMIT

    answer = await http.post("/v1/jobs", content=body, headers=JSON)

    assert answer.status_code == 202
