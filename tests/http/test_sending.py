"""`POST /v1/jobs/{id}/events/{name}`: what is sent to a job from outside."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.worker.worker import Worker
from tests.http.arrange import JSON, Submit
from tests.http.durable import end_of, until_waiting
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def sent(engine: Engine, job: dict[str, Any]) -> list[tuple[str, str]]:
    found = await engine.store.jobs.list_sent_events(DEFAULT_TENANT, job["id"])
    return [(message.name, message.data) for message in found]


async def test_an_event_is_given_to_the_handler_that_waits_for_it(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit
) -> None:
    job = await submit("event_in_time")
    await until_waiting(http, job)

    answer = await http.post(f"/v1/jobs/{job['id']}/events/approved", json={"by": "Ada 🎟️"})

    assert answer.status_code == 202
    assert answer.json()["id"] == job["id"]
    assert int(answer.headers["Retry-After"]) > 0
    assert (await end_of(http, job))["result"] == {"by": "Ada 🎟️"}


async def test_under_a_key_an_event_is_sent_once(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit, engine: Engine
) -> None:
    await engine.pause_queue("default")
    job = await submit("two_events")
    path, key = f"/v1/jobs/{job['id']}/events/approved", {"Idempotency-Key": "once"}
    for _ in range(2):
        assert (await http.post(path, json=1, headers=key)).status_code == 202

    other = await http.post(path, json=2, headers=key)

    read_problem(other, 422, "idempotency-key-reused")
    assert await sent(engine, job) == [("approved", "1")]


async def test_events_are_kept_until_they_are_waited_for_and_taken_in_order(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit, engine: Engine
) -> None:
    await engine.pause_queue("default")
    job = await submit("two_events")
    path = f"/v1/jobs/{job['id']}/events/approved"
    for data in (1, 2):
        assert (await http.post(path, json=data)).json()["state"] == "queued"

    assert await sent(engine, job) == [("approved", "1"), ("approved", "2")]
    await engine.resume_queue("default")
    assert (await end_of(http, job))["result"] == [1, 2]


@pytest.mark.parametrize("headers", [{}, JSON, {"Content-Type": "text/plain"}])
async def test_an_event_may_come_with_nothing(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, headers: dict[str, str]
) -> None:
    job = await submit("two_events")
    answer = await http.post(f"/v1/jobs/{job['id']}/events/approved", headers=headers)
    assert answer.status_code == 202
    assert await sent(engine, job) == [("approved", "null")]


async def test_a_job_that_has_ended_takes_no_events(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("echo")
    answer = await http.post(f"/v1/jobs/{job['id']}/events/approved", json=1)
    read_problem(answer, 409, "conflict")


async def test_an_event_for_no_job(http: httpx2.AsyncClient) -> None:
    read_problem(await http.post(f"/v1/jobs/{MISSING}/events/approved"), 404, "not-found")


async def test_what_cannot_be_an_event_changes_nothing(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    job = await submit("two_events")
    path = f"/v1/jobs/{job['id']}/events"
    read_problem(await http.post(f"{path}/no%20name", json=1), 400, "invalid-input")
    read_problem(await http.post(f"{path}/{'x' * 101}", json=1), 400, "invalid-input")
    read_problem(await http.post(f"{path}/a", content=b"{", headers=JSON), 400, "bad-request")
    answer = await http.post(f"{path}/a", content=b"1", headers={"Content-Type": "text/plain"})
    read_problem(answer, 415, "unsupported-media-type")
    large = b'"' + b"x" * 2**20 + b'"'
    read_problem(await http.post(f"{path}/a", content=large, headers=JSON), 413, "too-large")
    assert await sent(engine, job) == []


async def test_an_event_is_only_posted(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("two_events")
    answer = await http.get(f"/v1/jobs/{job['id']}/events/approved")
    read_problem(answer, 405, "method-not-allowed")
    assert answer.headers["Allow"] == "POST"
