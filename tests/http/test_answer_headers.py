"""No cache keeps an answer and no browser guesses its type, on any call of any surface."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from coatcheck.http.auth.middleware import with_defaults
from tests.http.arrange import Submit
from tests.http.every_surface import whole_api

pytestmark = pytest.mark.anyio

# The calls whose answers may be kept, and how they say so.
CACHEABLE = ("no-store", "private, no-cache", "no-cache", "public, max-age=")


async def test_every_answer_says_that_it_is_not_kept_and_what_it_is(tmp_path: Path) -> None:
    async with whole_api(tmp_path) as api:
        for endpoint in api.endpoints:
            if endpoint.forwards_query:
                continue  # passed on as the service behind it answered
            path = re.sub(r"\{\w+(:\w+)?\}", "x1", endpoint.path)
            answer = await api.http.request(endpoint.method, path)
            where = f"{endpoint.method} {endpoint.path}: {answer.status_code}"
            assert answer.headers["x-content-type-options"] == "nosniff", where
            assert answer.headers["cache-control"].startswith(CACHEABLE), where
            if answer.status_code >= 400:
                assert answer.headers["cache-control"] == "no-store", where


async def test_refusals_before_a_route_say_it_too(http: httpx2.AsyncClient) -> None:
    for answer in (
        await http.get("/nowhere"),
        await http.get("/v1/jobs", headers={"Host": "elsewhere.example"}),
        await http.put("/v1/jobs"),
    ):
        assert answer.status_code in (403, 404, 405)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


async def test_a_submit_and_a_job_say_it(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    taken = await http.post("/v1/jobs", json={"kind": "echo"})
    shown = await http.get(f"/v1/jobs/{job['id']}")
    assert taken.headers.get_list("cache-control") == ["no-store"]
    assert taken.headers.get_list("x-content-type-options") == ["nosniff"]
    assert shown.headers.get_list("cache-control") == ["private, no-cache"]


def test_what_an_answer_says_itself_is_kept() -> None:
    own = [(b"cache-control", b"public, max-age=300"), (b"x-content-type-options", b"nosniff")]
    assert with_defaults(own) == own
    relayed = [(b"content-type", b"application/json"), (b"coatcheck-job", b"01")]
    assert with_defaults(relayed) == relayed
