"""Coming back for a job: `GET /v1/jobs/{id}`, at once or with `?wait=`."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.worker.worker import Worker
from tests.http.arrange import Submit
from tests.http.kinds import Gate
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


async def test_a_long_poll_is_answered_when_the_job_ends_and_not_before(
    http: httpx2.AsyncClient, submit: Submit, worker: Worker, gate: Gate
) -> None:
    job = await submit("gated")
    await gate.entered()
    waiting = asyncio.create_task(http.get(f"/v1/jobs/{job['id']}?wait=60"))
    await _let_read_twice(http, job["id"])
    assert not waiting.done()

    gate.open()
    answer = await waiting

    assert answer.status_code == 200
    assert answer.json()["state"] == "succeeded"
    assert answer.json()["result"] == "passed"


async def test_a_long_poll_is_answered_when_the_job_is_cancelled(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")
    waiting = asyncio.create_task(http.get(f"/v1/jobs/{job['id']}?wait=60"))
    await _let_read_twice(http, job["id"])
    assert not waiting.done()

    await http.post(f"/v1/jobs/{job['id']}/cancel")

    assert (await waiting).json()["state"] == "cancelled"


async def test_many_waiters_of_one_job_are_all_answered_the_same(
    http: httpx2.AsyncClient, submit: Submit, worker: Worker, gate: Gate
) -> None:
    job = await submit("gated")
    waiting = [asyncio.create_task(http.get(f"/v1/jobs/{job['id']}?wait=60")) for _ in range(20)]
    await gate.entered()
    gate.open()

    answers = [answer.json() for answer in await asyncio.gather(*waiting)]

    assert answers[0]["state"] == "succeeded"
    assert all(answer == answers[0] for answer in answers)


async def test_a_wait_that_runs_out_answers_the_job_as_it_stands(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}?wait=0.01")

    assert answer.status_code == 200
    assert answer.json() == {**job, "position": 1}


async def test_a_job_that_has_ended_is_answered_whatever_the_wait(
    http: httpx2.AsyncClient, run: Submit
) -> None:
    job = await run("echo", "ended")

    for wait in ("0", "0.0", "60", "1e1"):
        answer = await http.get(f"/v1/jobs/{job['id']}", params={"wait": wait})
        assert answer.status_code == 200
        assert answer.json() == job


@pytest.mark.parametrize(
    "wait", ["-1", "-0.001", "60.001", "1e9", "nan", "inf", "-inf", "soon", "", "1s", "0x1"]
)
async def test_a_wait_that_is_not_seconds_up_to_a_minute_is_refused(
    http: httpx2.AsyncClient, submit: Submit, wait: str
) -> None:
    job = await submit("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}", params={"wait": wait})

    assert "wait" in read_problem(answer, 400, "bad-request")["detail"]


async def test_a_waiter_that_goes_away_leaves_the_job_and_the_other_waiters_alone(
    http: httpx2.AsyncClient, submit: Submit, worker: Worker, gate: Gate
) -> None:
    job = await submit("gated")
    await gate.entered()
    leaving = asyncio.create_task(http.get(f"/v1/jobs/{job['id']}?wait=60"))
    staying = asyncio.create_task(http.get(f"/v1/jobs/{job['id']}?wait=60"))
    await _let_read_twice(http, job["id"])

    leaving.cancel()
    await asyncio.wait([leaving])
    assert leaving.cancelled()
    assert (await http.get(f"/v1/jobs/{job['id']}")).json()["state"] == "running"
    gate.open()

    assert (await staying).json()["state"] == "succeeded"


async def test_waiters_are_let_go_with_the_job_as_it_stands_when_the_server_stops(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    job = await submit("echo")
    waiting = asyncio.create_task(http.get(f"/v1/jobs/{job['id']}?wait=60"))
    await _let_read_twice(http, job["id"])
    assert not waiting.done()

    engine.release_waiters()

    for answer in (await waiting, await http.get(f"/v1/jobs/{job['id']}?wait=60")):
        assert answer.status_code == 200
        assert answer.json() == {**job, "position": 1}


async def _let_read_twice(http: httpx2.AsyncClient, job_id: str) -> None:
    """Return when the requests under way have looked at the job before and after they registered.

    The store reads in the order it is asked: when our own read is answered, theirs are.
    """
    await asyncio.sleep(0)
    for _ in range(2):
        await http.get(f"/v1/jobs/{job_id}")
