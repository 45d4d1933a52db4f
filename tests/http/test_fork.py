"""`POST /v1/jobs/{id}/fork`."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.record import Record
from coatcheck.worker.worker import Worker
from tests.http.arrange import NOW, StoredJobs, Submit
from tests.http.durable import end_of, steps_of, until_waiting
from tests.http.kinds import Gate
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def fork(
    http: httpx2.AsyncClient, job: dict[str, Any], key: str | None = None, **body: Any
) -> httpx2.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await http.post(f"/v1/jobs/{job['id']}/fork", json=body, headers=headers)


async def test_a_fork_begins_with_the_steps_before_one(
    http: httpx2.AsyncClient, run: Submit, gate: Gate, engine: Engine
) -> None:
    labels = {"customer": "17"}
    job = await run("ticket", "a1", priority=3, labels=labels, max_attempts=7, deadline_s=60)
    gate.steps_run.clear()
    await engine.pause_queue("orders")

    answer = await fork(http, job, from_step=1)

    assert answer.status_code == 202
    forked = answer.json()
    assert answer.headers["Location"] == f"/v1/jobs/{forked['id']}"
    assert int(answer.headers["Retry-After"]) > 0
    assert forked["id"] != job["id"]
    assert (forked["forked_from"], forked["state"]) == (job["id"], "queued")
    same = ("kind", "queue", "priority", "labels", "max_attempts")
    assert [forked[name] for name in same] == [job[name] for name in same]
    assert forked["queue"] == "orders"
    await engine.resume_queue("orders")
    ended = await end_of(http, forked)
    assert (ended["state"], ended["result"]) == ("succeeded", "paid for A1")
    assert gate.steps_run == ["charge"]
    assert len(await steps_of(http, forked)) == 2


@pytest.mark.parametrize(
    ("from_step", "run_again"),
    [(0, ["reserve", "charge"]), ("reserve", ["reserve", "charge"]), ("charge", ["charge"])],
)
async def test_a_step_is_named_by_its_index_or_its_name(
    http: httpx2.AsyncClient, run: Submit, gate: Gate, from_step: Any, run_again: list[str]
) -> None:
    job = await run("ticket", "a1")
    gate.steps_run.clear()
    forked = (await fork(http, job, from_step=from_step)).json()
    assert (await end_of(http, forked))["state"] == "succeeded"
    assert gate.steps_run == run_again


async def test_a_fork_may_have_another_input(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("ticket", "a1")
    anew = (await fork(http, job, from_step=0, input="b2")).json()
    later = (await fork(http, job, from_step=1, input="b2")).json()
    assert (await end_of(http, anew))["result"] == "paid for B2"
    assert (await end_of(http, later))["result"] == "paid for A1", "that step is on record"


async def test_a_job_that_took_no_step_is_forked_from_its_beginning(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo", 5)
    assert (await fork(http, job, from_step=0)).status_code == 202
    read_problem(await fork(http, job, from_step=1), 422, "invalid-payload")


async def test_a_fork_waits_for_events_of_its_own(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit
) -> None:
    job = await submit("two_events")
    for data in ("first", "second"):
        await http.post(f"/v1/jobs/{job['id']}/events/approved", json=data)
    assert (await end_of(http, job))["result"] == ["first", "second"]

    forked = (await fork(http, job, from_step=1)).json()
    await until_waiting(http, forked)
    await http.post(f"/v1/jobs/{forked['id']}/events/approved", json="another")

    assert (await end_of(http, forked))["result"] == ["first", "another"]


@pytest.mark.parametrize("from_step", [2, 10**30, "nowhere", ""])
async def test_a_step_that_is_not_there(
    http: httpx2.AsyncClient, run: Submit, stored_jobs: StoredJobs, from_step: Any
) -> None:
    job = await run("ticket", "a1")
    found = read_problem(await fork(http, job, from_step=from_step), 422, "invalid-payload")
    assert [error["pointer"] for error in found["errors"]] == ["/from_step"]
    assert len(await stored_jobs()) == 1


async def test_what_makes_no_sense_forks_nothing(
    http: httpx2.AsyncClient, run: Submit, stored_jobs: StoredJobs
) -> None:
    job = await run("ticket", "a1")
    for body, place in (
        ({}, "/from_step"),
        ({"from_step": None}, "/from_step"),
        ({"from_step": -1}, "/from_step"),
        ({"from_step": True}, "/from_step"),
        ({"from_step": 0, "input": 7}, "/input"),
        ({"from_step": 0, "input": None}, "/input"),
        ({"from_step": 0, "inputs": "b"}, "/inputs"),
    ):
        found = read_problem(await fork(http, job, **body), 422, "invalid-payload")
        assert found["errors"][0]["pointer"].startswith(place), body
    assert len(await stored_jobs()) == 1
    missing = await fork(http, {"id": MISSING}, from_step=0)
    read_problem(missing, 404, "not-found")


# --- once under a key


async def test_a_fork_under_a_key_happens_once(
    http: httpx2.AsyncClient, run: Submit, stored_jobs: StoredJobs
) -> None:
    job = await run("ticket", "a1")
    answers = await asyncio.gather(*(fork(http, job, key="k", from_step=1) for _ in range(5)))

    assert len({answer.json()["id"] for answer in answers}) == 1
    again = await fork(http, job, key="k", from_step=1)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(await stored_jobs()) == 2
    ended = await end_of(http, again.json())
    replayed = await fork(http, job, key="k", from_step=1)
    assert (replayed.status_code, replayed.json()) == (200, ended)


async def test_a_key_is_for_one_request_only(
    http: httpx2.AsyncClient, run: Submit, stored_jobs: StoredJobs
) -> None:
    job = await run("ticket", "a1")
    await fork(http, job, key="k", from_step=1)
    other = await fork(http, job, key="k", from_step=0)
    read_problem(other, 422, "idempotency-key-reused")
    assert len(await stored_jobs()) == 2


async def test_a_refused_fork_leaves_its_key_free(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("ticket", "a1")
    read_problem(await fork(http, job, key="k", from_step=9), 422, "invalid-payload")
    assert (await fork(http, job, key="k", from_step=1)).status_code == 202


async def test_a_fork_that_a_crash_prevented_is_made_up_for(
    http: httpx2.AsyncClient, run: Submit, engine: Engine, stored_jobs: StoredJobs
) -> None:
    """The key is noted before the fork: here as it was left by somebody who died in between."""
    job = await run("ticket", "a1")
    first = await fork(http, job, key="k", from_step=1)
    noted = await engine.store.records.get_record(DEFAULT_TENANT, "forks", "k", NOW)
    assert isinstance(noted, Record)
    new_id = engine.new_id()
    left = noted.value.replace(first.json()["id"], new_id)
    await engine.store.records.put_record(Record(**{**_fields(noted), "value": left}))

    answer = await fork(http, job, key="k", from_step=1)

    assert (answer.status_code, answer.json()["id"]) == (202, new_id)
    assert (await fork(http, job, key="k", from_step=1)).json()["id"] == new_id
    assert len(await stored_jobs()) == 3


async def test_a_key_that_outlived_its_fork(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("ticket", "a1")
    forked = await end_of(http, (await fork(http, job, key="k", from_step=1)).json())
    await http.delete(f"/v1/jobs/{forked['id']}")
    read_problem(await fork(http, job, key="k", from_step=1), 410, "gone")


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in Record.__slots__}
