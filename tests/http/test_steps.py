"""`GET /v1/jobs/{id}/steps`, and what `explain` says of a job that waits."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.worker.worker import Worker
from tests.http.arrange import NOW_TEXT, Submit
from tests.http.durable import end_of, steps_of, until_waiting
from tests.http.kinds import Gate
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
A_DAY_LATER = "2033-05-19T03:33:20.000Z"


async def test_steps_are_there_in_order_with_their_results(
    http: httpx2.AsyncClient, run: Submit
) -> None:
    job = await run("ticket", "a1")

    assert job["result"] == "paid for A1"
    assert job["links"]["steps"] == f"/v1/jobs/{job['id']}/steps"
    times = {"attempts": 1, "started_at": NOW_TEXT, "finished_at": NOW_TEXT}
    assert await steps_of(http, job) == [
        {
            "seq": 0,
            "op": "step",
            "name": "reserve",
            "key": None,
            "occurrence": 0,
            "state": "succeeded",
            **times,
            "result": {"seat": "A1"},
        },
        {
            "seq": 1,
            "op": "step",
            "name": "charge",
            "key": "card",
            "occurrence": 0,
            "state": "succeeded",
            **times,
            "result": "paid for A1",
        },
    ]


async def test_a_step_that_failed_says_why(
    http: httpx2.AsyncClient, gate: Gate, run: Submit
) -> None:
    gate.is_sold_out = True
    job = await run("ticket", "a1")

    assert job["state"] == "failed"
    [_, charge] = await steps_of(http, job)
    assert charge["state"] == "failed"
    assert charge["error"]["message"].endswith("there is no seat left")
    assert "result" not in charge


async def test_a_job_without_steps_has_none(http: httpx2.AsyncClient, submit: Submit) -> None:
    assert await steps_of(http, await submit("ticket", "a1")) == []


async def test_steps_of_no_job(http: httpx2.AsyncClient) -> None:
    read_problem(await http.get(f"/v1/jobs/{MISSING}/steps"), 404, "not-found")


async def test_a_job_that_sleeps(http: httpx2.AsyncClient, worker: Worker, submit: Submit) -> None:
    job = await submit("sleeper")
    await until_waiting(http, job)

    seen = (await http.get(f"/v1/jobs/{job['id']}?explain=1")).json()

    assert (seen["state"], seen["run_at"]) == ("waiting", A_DAY_LATER)
    assert seen["explain"] == [
        {"code": "sleeping", "message": f"its handler sleeps until {A_DAY_LATER}"}
    ]
    [step] = await steps_of(http, job)
    assert (step["op"], step["state"], step["wake_at"]) == ("sleep", "waiting", A_DAY_LATER)
    assert step["finished_at"] is None


async def test_a_job_that_waits_for_an_event(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit
) -> None:
    for_ever, in_time = await submit("two_events"), await submit("event_in_time")
    await until_waiting(http, for_ever)
    await until_waiting(http, in_time)

    seen = (await http.get(f"/v1/jobs/{for_ever['id']}?explain=1")).json()
    assert seen["run_at"] is None, "it goes on at no particular time"
    [why] = seen["explain"]
    assert why["code"] == "waiting-for-event"
    assert "event 'approved' to be sent to it, without a time limit" in why["message"]
    [why] = (await http.get(f"/v1/jobs/{in_time['id']}?explain=1")).json()["explain"]
    assert why["message"].endswith(f"until {A_DAY_LATER}")


async def test_a_job_that_waits_for_those_it_has_spawned(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit
) -> None:
    job = await submit("parent")
    await until_waiting(http, job)

    children = [step["result"] for step in await steps_of(http, job) if step["op"] == "child"]
    first = (await http.get(f"/v1/jobs/{children[0]}")).json()
    assert (first["parent"], job["parent"]) == (job["id"], None)
    await http.post(f"/v1/jobs/{children[0]}/events/approved", json=1)
    await end_of(http, first)

    [why] = (await http.get(f"/v1/jobs/{job['id']}?explain=1")).json()["explain"]

    assert why["code"] == "waiting-for-jobs"
    assert "2 of its 3 child job(s)" in why["message"]
    for number, child in enumerate(children[1:], 2):
        await http.post(f"/v1/jobs/{child}/events/approved", json=number)
    assert (await end_of(http, job))["result"] == [1, 2, 3]
