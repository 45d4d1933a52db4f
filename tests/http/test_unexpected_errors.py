"""Faults of the server itself: a 500 that tells the caller nothing but how to ask about it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coatcheck.errors import StoreError
from tests.http.arrange import LogLines, connect
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

SECRET = "the password is swordfish"


async def broken(_request: Request) -> Response:
    raise RuntimeError(SECRET)


async def corrupt(_request: Request) -> Response:
    raise StoreError(SECRET)


@pytest.fixture
async def broken_http(app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    """The API with routes in it that fail as no route should."""
    app.router.routes.extend([Route("/broken", broken), Route("/corrupt", corrupt)])
    async with connect(app, raise_app_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("path", ["/broken", "/corrupt"])
async def test_an_unexpected_error_is_a_problem_that_says_nothing_of_its_cause(
    broken_http: httpx2.AsyncClient, path: str
) -> None:
    answer = await broken_http.get(path)

    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:coatcheck:internal"
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/broken", "/corrupt"])
async def test_an_unexpected_error_carries_the_id_it_was_logged_under(
    broken_http: httpx2.AsyncClient, log_lines: LogLines, path: str
) -> None:
    answer = await broken_http.get(path, headers={"X-Correlation-Id": "order-4711"})

    assert read_problem(answer, 500, "internal")["correlation_id"] == "order-4711"
    [line] = [line for line in log_lines() if line["level"] == "error"]
    assert line["correlation_id"] == "order-4711"


@pytest.mark.parametrize(
    ("path", "name"), [("/broken", "RuntimeError"), ("/corrupt", "StoreError")]
)
async def test_an_unexpected_error_is_logged_with_its_place_and_without_its_text(
    broken_http: httpx2.AsyncClient, log_lines: LogLines, path: str, name: str
) -> None:
    await broken_http.get(path)

    [line] = [line for line in log_lines() if line["level"] == "error"]
    assert line["error_type"] == name
    assert line["traceback"][0].startswith(f"{path[1:]} (")
    assert SECRET not in str(line)


async def test_the_next_request_is_served(broken_http: httpx2.AsyncClient) -> None:
    await broken_http.get("/broken")

    assert (await broken_http.get("/healthz")).status_code == 200
