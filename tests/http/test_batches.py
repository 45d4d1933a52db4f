"""`POST /v1/batches`: many jobs, all or none, as JSON or one a line."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from coatcheck.http.jobs import batches as module
from coatcheck.store.base import BATCH_LIMIT
from tests.http.arrange import JSON, StoredJobs
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

NDJSON = {"Content-Type": "application/x-ndjson"}
GOOD = {"kind": "echo"}
BAD_ORDER = {"kind": "total", "input": {"customer": "c", "amounts": [1, 0]}}


def lines(*jobs: Any) -> bytes:
    return b"".join(json.dumps(job).encode() + b"\n" for job in jobs)


@pytest.mark.parametrize("count", [1, 2, 199, 201, 450])
@pytest.mark.parametrize("form", ["JSON", "NDJSON"])
async def test_all_jobs_of_a_batch_are_taken_in_order(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, count: int, form: str
) -> None:
    jobs = [{"kind": "echo", "input": n, "labels": {"n": str(n)}} for n in range(count)]

    if form == "JSON":
        answer = await http.post("/v1/batches", json={"jobs": jobs})
    else:
        answer = await http.post("/v1/batches", content=lines(*jobs), headers=NDJSON)

    assert answer.status_code == 202, answer.text
    listed = answer.json()["jobs"]
    assert listed[0] == {
        "id": listed[0]["id"],
        "kind": "echo",
        "state": "queued",
        "links": {"self": f"/v1/jobs/{listed[0]['id']}"},
    }
    ids = [job["id"] for job in listed]
    assert ids == sorted(ids)
    stored = {job.id: job.labels["n"] for job in await stored_jobs()}
    assert [stored[one] for one in ids] == [str(n) for n in range(count)]


async def test_blank_lines_between_jobs_are_no_jobs(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    body = b"\n" + lines(GOOD) + b"\r\n  \n" + lines(GOOD).rstrip(b"\n")

    answer = await http.post("/v1/batches", content=body, headers=NDJSON)

    assert len(answer.json()["jobs"]) == 2
    assert len(await stored_jobs()) == 2


async def test_one_bad_job_keeps_all_out_and_is_named_by_its_place(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    jobs = [GOOD] * 17 + [BAD_ORDER] + [GOOD, {"kind": "echo", "max_attempts": 0}, {"kind": "x"}]

    for answer in (
        await http.post("/v1/batches", json={"jobs": jobs}),
        await http.post("/v1/batches", content=lines(*jobs), headers=NDJSON),
    ):
        problem = read_problem(answer, 422, "invalid-payload")
        assert [error["pointer"] for error in problem["errors"]] == [
            "/jobs/17/input/amounts/1",
            "/jobs/19/max_attempts",
            "/jobs/20/kind",
        ]
        assert all(error["detail"] for error in problem["errors"])
    assert await stored_jobs() == []


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        (5, "/jobs/1"),
        (None, "/jobs/1"),
        ([], "/jobs/1"),
        ({}, "/jobs/1/kind"),
        ({"kind": 5}, "/jobs/1/kind"),
        ({"kind": "echo", "knid": 1}, "/jobs/1/knid"),
        ({"kind": "echo", "run_at": "soon"}, "/jobs/1/run_at"),
        ({"kind": "echo", "labels": {"a": 1}}, "/jobs/1/labels/a"),
        ({"kind": "echo", "labels": {"a/b": "x" * 256}}, "/jobs/1/labels/a~1b"),
    ],
)
async def test_what_is_no_job_is_named_by_its_place(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, entry: Any, pointer: str
) -> None:
    answer = await http.post("/v1/batches", json={"jobs": [GOOD, entry]})

    problem = read_problem(answer, 422, "invalid-payload")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert await stored_jobs() == []


async def test_a_batch_that_is_wrong_all_through_is_not_told_of_every_job(
    http: httpx2.AsyncClient,
) -> None:
    for bad in ({"kind": 5}, {"kind": "no such kind"}):
        answer = await http.post("/v1/batches", json={"jobs": [bad] * 5_000})
        assert len(read_problem(answer, 422, "invalid-payload")["errors"]) == 100


@pytest.mark.parametrize(
    "body", [[], {}, {"jobs": {}}, {"jobs": None}, {"jobs": []}, {"jobs": [GOOD], "x": 1}, 5, ""]
)
async def test_what_is_no_batch_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, body: Any
) -> None:
    answer = await http.post("/v1/batches", json=body)

    [error] = read_problem(answer, 422, "invalid-payload")["errors"]
    assert error["pointer"] == "/jobs"
    assert await stored_jobs() == []


async def test_no_lines_are_no_batch(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/batches", content=b"\n \n", headers=NDJSON)

    read_problem(answer, 422, "invalid-payload")


@pytest.mark.parametrize(
    "bad", [b"{", b'{"kind":"echo","kind":"echo"}', b'{"kind":NaN}', b'"\\u0000"', b"\xff", b"["]
)
async def test_a_line_that_is_not_json_is_named(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, bad: bytes
) -> None:
    answer = await http.post("/v1/batches", content=lines(GOOD) + bad, headers=NDJSON)

    assert read_problem(answer, 400, "bad-request")["detail"].startswith("line 2: ")
    document = b'{"jobs":[' + bad + b"]}"
    read_problem(await http.post("/v1/batches", content=document, headers=JSON), 400, "bad-request")
    assert await stored_jobs() == []


async def test_ten_thousand_jobs_are_a_batch_and_one_more_is_not(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    over = await http.post(
        "/v1/batches", content=lines(*[GOOD] * (BATCH_LIMIT + 1)), headers=NDJSON
    )
    assert "10,001" in read_problem(over, 422, "invalid-payload")["detail"]
    assert await stored_jobs() == []

    full = await http.post("/v1/batches", content=lines(*[GOOD] * BATCH_LIMIT), headers=NDJSON)
    assert full.status_code == 202
    assert len({job["id"] for job in full.json()["jobs"]}) == BATCH_LIMIT


async def test_a_batch_has_a_limit_of_its_own(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.BATCH_BYTES == 16 * 1024 * 1024
    large = {"kind": "echo", "input": "x" * 1_500_000}
    answer = await http.post("/v1/batches", json={"jobs": [large]})
    assert answer.status_code == 202, "more than a single submit may have"

    headers = {**JSON, "Content-Length": str(module.BATCH_BYTES + 1)}
    answer = await http.post("/v1/batches", content=b"{}", headers=headers)
    read_problem(answer, 413, "too-large")

    monkeypatch.setattr(module, "BATCH_BYTES", 1_000)
    answer = await http.post("/v1/batches", content=lines(*[GOOD] * 100), headers=NDJSON)
    assert "1,000" in read_problem(answer, 413, "too-large")["detail"]
    assert len(await stored_jobs()) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/ndjson"},
        {},
        {**NDJSON, "Content-Encoding": "gzip"},
        {**JSON, "Content-Encoding": "br"},
    ],
)
async def test_another_type_or_a_compressed_body_is_refused(
    http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await http.post("/v1/batches", content=lines(GOOD), headers=headers)

    read_problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize("count", [1, 3, 450])
async def test_a_batch_that_is_repeated_under_its_key_happens_once(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, count: int
) -> None:
    jobs = [{"kind": "echo", "input": n} for n in range(count)]
    headers = {"Idempotency-Key": "import-7"}

    first = await http.post("/v1/batches", json={"jobs": jobs}, headers=headers)
    again = await http.post("/v1/batches", json={"jobs": jobs}, headers=headers)
    by_line = await http.post("/v1/batches", content=lines(*jobs), headers={**NDJSON, **headers})

    assert "idempotency-replayed" not in first.headers
    for answer in (again, by_line):
        assert answer.status_code == 202
        assert answer.headers["idempotency-replayed"] == "true"
        assert answer.json() == first.json()
    assert len(await stored_jobs()) == count
    other = await http.post("/v1/batches", json={"jobs": [*jobs, GOOD]}, headers=headers)
    read_problem(other, 422, "idempotency-key-reused")
    single = await http.post("/v1/jobs", json=GOOD, headers=headers)
    read_problem(single, 422, "idempotency-key-reused")


async def test_a_batch_whose_jobs_are_gone_is_gone(http: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "import-8"}
    body = {"jobs": [GOOD, GOOD]}
    jobs = (await http.post("/v1/batches", json=body, headers=headers)).json()["jobs"]
    # Also when only some are: whoever matches jobs to what it asked for could not.
    for job in jobs:
        await http.post(f"/v1/jobs/{job['id']}/cancel")
        await http.delete(f"/v1/jobs/{job['id']}")
        read_problem(await http.post("/v1/batches", json=body, headers=headers), 410, "gone")
