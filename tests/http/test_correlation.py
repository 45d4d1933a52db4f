"""Following one request through answers, jobs and logs."""

from __future__ import annotations

import re

import httpx2
import pytest

from tests.http.arrange import LogLines, StoredJobs, Submit

pytestmark = pytest.mark.anyio

HEADER = "X-Correlation-Id"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("given", ["a", "order-4711", "A_b.c:d-9", "x" * 128])
async def test_the_callers_id_is_given_back_and_kept_with_the_job(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, given: str
) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "echo"}, headers={HEADER: given})

    assert answer.headers[HEADER] == given
    [job] = await stored_jobs()
    assert job.correlation_id == given


@pytest.mark.parametrize(
    "given",
    [None, b"", b"two words", b"x" * 129, "naïve".encode(), b"a,b", b"<script>", b'"quoted"'],
)
async def test_an_id_is_made_where_none_or_an_unusable_one_is_given(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, given: bytes | None
) -> None:
    headers = {} if given is None else {HEADER.encode(): given}

    answer = await http.post("/v1/jobs", json={"kind": "echo"}, headers=headers)

    assert re.fullmatch("[0-9a-f]{16}", answer.headers[HEADER])
    [job] = await stored_jobs()
    assert job.correlation_id == answer.headers[HEADER]


async def test_two_requests_never_share_an_id_that_was_made(http: httpx2.AsyncClient) -> None:
    first, second = await http.get("/healthz"), await http.get("/healthz")

    assert first.headers[HEADER] != second.headers[HEADER]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/nowhere", 404),
        ("PUT", "/v1/jobs", 405),
        ("POST", "/v1/jobs", 415),
    ],
)
async def test_every_answer_carries_the_id(
    http: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await http.request(method, path, headers={HEADER: "order-4711"})

    assert answer.status_code == status
    assert answer.headers[HEADER] == "order-4711"


async def test_a_refusal_of_the_guard_carries_the_id(http: httpx2.AsyncClient) -> None:
    headers = {HEADER: "order-4711", "Host": "evil.example"}

    answer = await http.get("/healthz", headers=headers)

    assert answer.status_code == 403
    assert answer.headers[HEADER] == answer.json()["correlation_id"] == "order-4711"


async def test_what_a_request_logs_carries_the_id(
    http: httpx2.AsyncClient, log_lines: LogLines
) -> None:
    submitted = await http.post("/v1/jobs", json={"kind": "echo"}, headers={HEADER: "order-1"})
    job_id = submitted.json()["id"]
    await http.post(f"/v1/jobs/{job_id}/cancel", headers={HEADER: "order-2"})

    lines = {line["message"]: line for line in log_lines()}
    assert lines["job submitted"]["correlation_id"] == "order-1"
    assert lines["job submitted"]["job_id"] == job_id
    assert lines["job submitted"]["kind"] == "echo"
    assert lines["job cancel requested"]["correlation_id"] == "order-2"


async def test_what_the_worker_logs_of_a_job_carries_the_id_it_was_submitted_with(
    http: httpx2.AsyncClient, run: Submit, log_lines: LogLines
) -> None:
    http.headers[HEADER] = "order-4711"

    job = await run("crash", "out of luck")

    [line] = [line for line in log_lines() if line["message"] == "handler failed"]
    assert line["job_id"] == job["id"]
    assert line["correlation_id"] == "order-4711"


async def test_a_valid_traceparent_is_kept_with_the_job(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    await http.post("/v1/jobs", json={"kind": "echo"}, headers={"traceparent": TRACE})

    [job] = await stored_jobs()
    assert job.traceparent == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        TRACE.upper(),
        TRACE[:-1],
        TRACE + "0",
        TRACE.replace("-", "_"),
        TRACE.replace("4bf9", "zzzz"),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "ff" + TRACE[2:],
    ],
    ids=[
        "empty",
        "nonsense",
        "upper case",
        "too short",
        "too long",
        "separators",
        "not hexadecimal",
        "trace id of zeros",
        "parent id of zeros",
        "forbidden version",
    ],
)
async def test_an_invalid_traceparent_is_ignored(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, traceparent: str
) -> None:
    headers = {"traceparent": traceparent}

    answer = await http.post("/v1/jobs", json={"kind": "echo"}, headers=headers)

    assert answer.status_code == 202
    [job] = await stored_jobs()
    assert job.traceparent is None
