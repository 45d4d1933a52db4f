"""`DELETE /v1/jobs/{id}`: only what has ended, with a receipt, and then it is gone."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import NOW_TEXT, StoppedClock, StoredJobs, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000


async def test_a_receipt_says_what_was_removed(
    http: httpx2.AsyncClient, run: Submit, stored_jobs: StoredJobs
) -> None:
    job = await run("echo", "confidential", labels={"team": "blue"})

    answer = await http.delete(f"/v1/jobs/{job['id']}")

    assert answer.status_code == 200
    assert answer.json() == {
        "id": job["id"],
        "deleted_at": NOW_TEXT,
        "erased": True,
        "removed": {
            "jobs": 1,
            "payloads": 2,
            "events": 3,
            "steps": 0,
            "messages": 0,
            "artifacts": 0,
            "uploads": 0,
            "blobs": 0,
            "deliveries": 0,
        },
    }
    assert await stored_jobs() == []
    assert (await http.get("/v1/jobs?label=team:blue")).json()["jobs"] == []


async def test_afterwards_every_call_says_that_it_is_gone_and_later_that_it_never_was(
    http: httpx2.AsyncClient, submit: Submit, store: SQLiteStore, clock: StoppedClock
) -> None:
    job = await submit("echo", "confidential")
    path = f"/v1/jobs/{job['id']}"
    await http.post(f"{path}/cancel")
    await http.delete(path)
    calls = [
        ("GET", path),
        ("GET", f"{path}/result"),
        ("GET", f"{path}/events"),
        ("POST", f"{path}/cancel"),
        ("DELETE", path),
    ]

    for method, called in calls:
        answer = await http.request(method, called)
        read_problem(answer, 410, "gone")
        assert "confidential" not in answer.text
    clock.milliseconds += 7 * DAY_MS + 1
    await store.maintenance.sweep(clock.now())
    for method, called in calls:
        read_problem(await http.request(method, called), 404, "not-found")


async def test_a_job_that_has_not_ended_is_not_deleted(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")
    path = f"/v1/jobs/{job['id']}"

    assert "queued" in read_problem(await http.delete(path), 409, "conflict")["detail"]
    await engine.claim(claimer, ["echo"], 1)
    assert "running" in read_problem(await http.delete(path), 409, "conflict")["detail"]
    assert (await http.get(path)).json()["state"] == "running"


async def test_of_many_at_once_one_gets_the_receipt(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    path = f"/v1/jobs/{(await submit('echo'))['id']}"
    await http.post(f"{path}/cancel")

    answers = await asyncio.gather(*(http.delete(path) for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [200] + [410] * 9


async def test_a_job_that_never_was_is_not_found(http: httpx2.AsyncClient) -> None:
    read_problem(await http.delete("/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV"), 404, "not-found")


async def test_a_query_is_refused_and_nothing_deleted(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    path = f"/v1/jobs/{(await submit('echo'))['id']}"
    await http.post(f"{path}/cancel")

    read_problem(await http.delete(f"{path}?force=1"), 400, "bad-request")
    assert (await http.get(path)).status_code == 200
