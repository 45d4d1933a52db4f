"""`GET /v1/jobs/{id}/result`: the result alone, and what there is instead of one."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from tests.http.arrange import Submit
from tests.http.kinds import UNUSUAL_RESULTS
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None]}, "text", 0, False, None, [], {}])
async def test_the_result_is_what_the_handler_returned(
    http: httpx2.AsyncClient, run: Submit, value: Any
) -> None:
    job = await run("echo", value)

    answer = await http.get(f"/v1/jobs/{job['id']}/result")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == value
    assert "retry-after" not in answer.headers


async def test_a_large_result_and_unusual_text_come_whole(
    http: httpx2.AsyncClient, run: Submit
) -> None:
    for name in ("long", "unicode"):
        job = await run("answer_with", name)
        answer = await http.get(f"/v1/jobs/{job['id']}/result")
        assert answer.json() == UNUSUAL_RESULTS[name]


async def test_while_there_is_none_the_job_is_answered_and_when_to_come_back(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}/result")

    assert answer.status_code == 202
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json() == job


async def test_it_can_be_waited_for(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    job = await submit("echo")
    waiting = asyncio.create_task(http.get(f"/v1/jobs/{job['id']}/result?wait=60"))
    await http.get(f"/v1/jobs/{job['id']}")
    assert not waiting.done()
    await engine.cancel(job["id"])

    async with asyncio.timeout(20):
        assert (await waiting).status_code == 409


def read_no_result(answer: httpx2.Response, code: str) -> dict[str, Any]:
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert (body["type"], body["status"], body["title"]) == (
        f"urn:coatcheck:{code}",
        409,
        "Conflict",
    )
    return body


async def test_of_a_failed_job_the_error_is_told(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("give_up", "all gone")

    problem = read_no_result(await http.get(f"/v1/jobs/{job['id']}/result"), "job-failed")

    assert problem["error"] == job["error"]
    assert problem["error"]["code"] == "no-stock"
    assert problem["reason"] == job["reason"]
    assert "all gone" in problem["detail"]


async def test_of_a_cancelled_job_that_it_was(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    await http.post(f"/v1/jobs/{job['id']}/cancel")

    read_no_result(await http.get(f"/v1/jobs/{job['id']}/result"), "job-cancelled")


@pytest.mark.parametrize("query", ["wait=61", "wait=-1", "wait=x", "explain=1"])
async def test_a_query_that_makes_no_sense_is_refused(
    http: httpx2.AsyncClient, submit: Submit, query: str
) -> None:
    job = await submit("echo")

    read_problem(await http.get(f"/v1/jobs/{job['id']}/result?{query}"), 400, "bad-request")


async def test_a_job_that_never_was_and_one_that_is_gone_have_none(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    never = await http.get("/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/result")
    read_problem(never, 404, "not-found")
    job = await submit("echo")
    await http.post(f"/v1/jobs/{job['id']}/cancel")
    await http.delete(f"/v1/jobs/{job['id']}")
    read_problem(await http.get(f"/v1/jobs/{job['id']}/result"), 410, "gone")


async def test_its_head(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("echo", "abc")

    head = await http.head(f"/v1/jobs/{job['id']}/result")

    assert (head.status_code, head.headers["content-length"]) == (200, "5")
