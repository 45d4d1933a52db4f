"""`GET /v1/kinds`: what can be submitted here."""

from __future__ import annotations

import httpx2
import pytest

from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


async def test_every_kind_is_listed_by_name(http: httpx2.AsyncClient) -> None:
    kinds = (await http.get("/v1/kinds")).json()["kinds"]

    names = [kind["name"] for kind in kinds]
    assert names == sorted(names)
    assert {"echo", "total", "nothing", "gated"} <= set(names)


async def test_a_kind_has_its_terms_and_its_schemas(http: httpx2.AsyncClient) -> None:
    kind = (await http.get("/v1/kinds/total")).json()

    assert kind in (await http.get("/v1/kinds")).json()["kinds"]
    given, result = kind.pop("input_schema"), kind.pop("result_schema")
    assert kind == {
        "name": "total",
        "queue": "orders",
        "isolation": "async",
        "concurrency": None,
        "concurrency_by_key": False,
        "rate": None,
        "version": None,
        "internal": False,
        "max_attempts": 5,
        "on_lost": "requeue",
        "timeout_s": 3600,
        "keep_succeeded_s": 86400,
        "keep_failed_s": 604800,
    }
    assert given["required"] == ["customer", "amounts"]
    assert result == {"type": "integer"}


@pytest.mark.parametrize("name", ["Total", "no-such-kind", "%00", "total%20"])
async def test_a_kind_that_is_not_declared_is_not_found(
    http: httpx2.AsyncClient, name: str
) -> None:
    read_problem(await http.get(f"/v1/kinds/{name}"), 404, "not-found")


async def test_queries_and_other_methods_are_refused(http: httpx2.AsyncClient) -> None:
    read_problem(await http.get("/v1/kinds?limit=1"), 400, "bad-request")
    answer = await http.post("/v1/kinds")
    read_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] in ("GET, HEAD", "HEAD, GET")
