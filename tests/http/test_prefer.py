"""`Prefer` on a submit: answer at once, or wait a while for the end."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from coatcheck.engine.engine import Engine
from coatcheck.http.request.prefer import read_preference
from coatcheck.model.job import Job
from coatcheck.worker.worker import Worker
from tests.http.arrange import StoredJobs

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("given", "wait_s", "applied"),
    [
        ([], 0, ""),
        ([""], 0, ""),
        (["respond-async"], 0, "respond-async"),
        (["Respond-Async"], 0, "respond-async"),
        (["wait=5"], 5, "wait=5"),
        (['wait = "5"'], 5, "wait=5"),
        (["WAIT=5"], 5, "wait=5"),
        (["wait=60"], 60, "wait=60"),
        (["wait=61"], 60, "wait=60"),
        (["wait=999999999"], 60, "wait=60"),
        (["wait=0"], 0, "wait=0"),
        (["wait=0, wait=9"], 0, "wait=0"),
        (["wait=9, wait=3"], 9, "wait=9"),
        (["respond-async, wait=10"], 10, "respond-async, wait=10"),
        (["wait=10,respond-async"], 10, "wait=10, respond-async"),
        (["respond-async", "wait=10"], 10, "respond-async, wait=10"),
        (["respond-async, respond-async"], 0, "respond-async"),
        (["return=minimal, wait=10; x=y, handling=lenient"], 10, "wait=10"),
        (["wait=-1"], 0, ""),
        (["wait=1.5"], 0, ""),
        (["wait=soon"], 0, ""),
        (["wait"], 0, ""),
        (["wait=9999999999"], 0, ""),
    ],
)
async def test_what_is_heard(given: list[str], wait_s: int, applied: str) -> None:
    headers = [(b"prefer", value.encode()) for value in given]

    preference = read_preference(Request({"type": "http", "headers": headers}))

    assert (preference.wait_s, preference.applied) == (wait_s, applied)


async def test_a_wait_that_is_long_enough_is_answered_with_the_result(
    http: httpx2.AsyncClient, worker: Worker
) -> None:
    answer = await http.post(
        "/v1/jobs", json={"kind": "echo", "input": 7}, headers={"Prefer": "wait=60"}
    )

    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=60"
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    assert "retry-after" not in answer.headers
    assert (answer.json()["state"], answer.json()["result"]) == ("succeeded", 7)


async def test_a_job_that_fails_in_time_is_answered_with_200_too(
    http: httpx2.AsyncClient, worker: Worker
) -> None:
    answer = await http.post(
        "/v1/jobs", json={"kind": "give_up", "input": "none"}, headers={"Prefer": "wait=60"}
    )

    assert (answer.status_code, answer.json()["state"]) == (200, "failed")


async def test_a_wait_that_runs_out_is_answered_with_202(
    http: httpx2.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    wait_for_job = engine.wait_for_job

    async def shortened(job: Job, timeout: float) -> object:
        asked.append(timeout)
        return await wait_for_job(job, 0.01)

    monkeypatch.setattr(engine, "wait_for_job", shortened)
    headers = {"Prefer": "respond-async, wait=10"}
    answer = await http.post("/v1/jobs", json={"kind": "echo"}, headers=headers)

    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "respond-async, wait=10"
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["state"] == "queued"
    assert asked == [10]


async def test_who_does_not_want_to_wait_does_not(http: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(20):
        answer = await http.post(
            "/v1/jobs", json={"kind": "echo"}, headers={"Prefer": "respond-async"}
        )
        plain = await http.post("/v1/jobs", json={"kind": "echo"})

    assert answer.status_code == plain.status_code == 202
    assert answer.headers["preference-applied"] == "respond-async"
    assert "preference-applied" not in plain.headers


async def test_who_leaves_while_waiting_cancels_nothing(
    app: Starlette, http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    waiting = asyncio.create_task(
        http.post("/v1/jobs", json={"kind": "echo"}, headers={"Prefer": "wait=60"})
    )
    while not (jobs := await stored_jobs()):
        assert not waiting.done()
    await http.get(f"/v1/jobs/{jobs[0].id}")

    waiting.cancel()
    await asyncio.wait([waiting])

    [job] = await stored_jobs()
    assert job.state == "queued"
    assert not job.cancel_requested
