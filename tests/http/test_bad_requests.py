"""Requests that are wrong around their body: type, method, query, accept."""

from __future__ import annotations

import httpx2
import pytest

from tests.http.arrange import JSON, StoredJobs, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

GOOD = b'{"kind":"echo"}'


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/plain; application/json",
    ],
)
async def test_a_body_of_another_type_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}

    answer = await http.post("/v1/jobs", content=GOOD, headers=headers)

    assert "application/json" in read_problem(answer, 415, "unsupported-media-type")["detail"]
    assert await stored_jobs() == []


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/a+json",
    ],
)
async def test_json_by_any_of_its_names_is_taken(
    http: httpx2.AsyncClient, content_type: str
) -> None:
    answer = await http.post("/v1/jobs", content=GOOD, headers={"Content-Type": content_type})

    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/v1/jobs", "PUT", {"GET", "HEAD", "POST"}),
        ("/v1/jobs", "OPTIONS", {"GET", "HEAD", "POST"}),
        ("/v1/jobs/x", "POST", {"DELETE", "GET", "HEAD"}),
        ("/v1/jobs/x", "PATCH", {"DELETE", "GET", "HEAD"}),
        ("/v1/jobs/x/cancel", "GET", {"POST"}),
        ("/v1/jobs/x/cancel", "DELETE", {"POST"}),
        ("/healthz", "POST", {"GET", "HEAD"}),
        ("/v1/jobs", "MADEUP", {"GET", "HEAD", "POST"}),
    ],
)
async def test_a_method_a_path_does_not_have_is_refused_with_those_it_has(
    http: httpx2.AsyncClient, path: str, method: str, allowed: set[str]
) -> None:
    answer = await http.request(method, path)

    read_problem(answer, 405, "method-not-allowed")
    assert {name.strip() for name in answer.headers["allow"].split(",")} == allowed


@pytest.mark.parametrize(
    ("method", "suffix"), [("GET", ""), ("POST", "/cancel")], ids=["get", "cancel"]
)
@pytest.mark.parametrize("query", ["?wiat=5", "?wait=5&explian=1", "?=", "?Wait=5"])
async def test_a_query_parameter_nobody_knows_is_refused(
    http: httpx2.AsyncClient, submit: Submit, method: str, suffix: str, query: str
) -> None:
    job = await submit("echo")

    answer = await http.request(method, f"/v1/jobs/{job['id']}{suffix}{query}")

    read_problem(answer, 400, "bad-request")
    assert (await http.get(f"/v1/jobs/{job['id']}")).json() == {**job, "position": 1}


async def test_a_query_parameter_nobody_knows_keeps_a_job_from_being_submitted(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    answer = await http.post("/v1/jobs?qeue=fast", content=GOOD, headers=JSON)

    read_problem(answer, 400, "bad-request")
    assert await stored_jobs() == []


async def test_who_accepts_no_json_is_told_so_before_anything_is_done(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    answer = await http.post("/v1/jobs", content=GOOD, headers={**JSON, "Accept": "text/html"})

    read_problem(answer, 406, "not-acceptable")
    assert await stored_jobs() == []


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/*", "text/html, */*"])
async def test_who_accepts_json_among_others_gets_it(http: httpx2.AsyncClient, accept: str) -> None:
    answer = await http.post("/v1/jobs", content=GOOD, headers={**JSON, "Accept": accept})

    assert answer.status_code == 202


async def test_health_is_answered(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/healthz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}
