"""Workers in any language: they claim, heartbeat and settle over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from tests.http.arrange import StoppedClock, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

Claim = dict[str, Any]


async def claim(http: httpx2.AsyncClient, *kinds: str, **fields: Any) -> list[Claim]:
    answer = await http.post("/v1/claims", json={"kinds": kinds or ("echo",), **fields})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["claims"])


async def say(http: httpx2.AsyncClient, claimed: Claim, what: str, **body: Any) -> httpx2.Response:
    path = claimed["links"][what]
    return await http.post(path, json=body) if body else await http.post(path)


async def state(http: httpx2.AsyncClient, claimed: Claim) -> str:
    return str((await http.get(f"/v1/jobs/{claimed['job_id']}")).json()["state"])


async def test_a_job_is_claimed_with_all_that_is_needed_to_run_it(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo", {"a": [1, "ä"]})
    [claimed] = await claim(http, max=5)

    path = f"/v1/jobs/{job['id']}/leases/1"
    assert claimed["job_id"] == job["id"]
    assert claimed["input"] == {"a": [1, "ä"]}
    assert (claimed["fence"], claimed["attempt"], claimed["max_attempts"]) == (1, 1, 3)
    assert claimed["timeout_s"] == 3600
    assert claimed["links"]["complete"] == f"{path}/complete"
    assert await state(http, claimed) == "running"
    assert await claim(http) == []


async def test_a_job_is_completed_with_its_result(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    answer = await say(http, claimed, "complete", result={"fine": True})
    assert (answer.json()["state"], answer.json()["result"]) == ("succeeded", {"fine": True})


async def test_the_same_end_told_twice_is_one(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    for _ in range(2):
        answer = await say(http, claimed, "complete", result=1)
        assert (answer.status_code, answer.json()["result"]) == (200, 1)


async def test_a_result_that_does_not_fit_is_refused_and_changes_nothing(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    await submit("total", {"customer": "Ada", "amounts": [1]})
    [claimed] = await claim(http, "total")
    problem = read_problem(
        await say(http, claimed, "complete", result="many"), 422, "invalid-payload"
    )
    assert problem["errors"][0]["pointer"].startswith("/result")
    assert await state(http, claimed) == "running"


async def test_progress_is_shown_and_logged(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    said = {"done": 1, "total": 4, "message": "a", "phase": "loading", "log": "hello"}
    job = (await say(http, claimed, "progress", **said)).json()
    assert (job["progress"], job["phase"]) == ({"done": 1, "total": 4, "message": "a"}, "loading")
    events = await http.get(f"/v1/jobs/{job['id']}/events", headers={"Accept": "application/json"})
    assert {"message": "hello"} in [event["data"] for event in events.json()["events"]]


async def test_a_failed_attempt_is_made_again_unless_that_would_not_help(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    again = (await say(http, claimed, "fail", code="busy", retry_after_s=0)).json()
    assert (again["state"], again["error"]["code"]) == ("queued", "busy")
    [claimed] = await claim(http)
    assert (claimed["attempt"], claimed["fence"]) == (2, 2)
    ended = (await say(http, claimed, "fail", code="no", message="x", retryable=False)).json()
    assert (ended["state"], ended["error"]["message"]) == ("failed", "x")


async def test_a_failed_attempt_waits_by_the_kinds_backoff(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    again = (await say(http, claimed, "fail", code="busy")).json()
    assert again["run_at"] > again["created_at"]


async def test_a_released_job_is_as_it_was(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    released = (await say(http, claimed, "release")).json()
    assert (released["state"], released["attempt"]) == ("queued", 0)
    assert [one["attempt"] for one in await claim(http)] == [1]


async def test_a_stale_lease_changes_nothing(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [stale] = await claim(http)
    await say(http, stale, "release")
    [current] = await claim(http)
    for what, body in (
        ("heartbeat", {}),
        ("progress", {"done": 1}),
        ("complete", {"result": 1}),
        ("fail", {"code": "x"}),
        ("release", {}),
    ):
        read_problem(await say(http, stale, what, **body), 409, "stale-lease")
    assert (await say(http, current, "complete", result=2)).json()["result"] == 2


async def test_a_heartbeat_tells_of_a_cancel(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    assert (await say(http, claimed, "heartbeat")).json() == {
        "lease_s": 30,
        "cancel_requested": False,
    }
    await http.post(f"/v1/jobs/{claimed['job_id']}/cancel")
    assert (await say(http, claimed, "heartbeat")).json()["cancel_requested"] is True
    assert (await say(http, claimed, "fail", code="stopped")).json()["state"] == "cancelled"


async def test_a_heartbeat_after_the_timeout_ends_the_attempt(
    http: httpx2.AsyncClient, submit: Submit, clock: StoppedClock
) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    clock.milliseconds += 3_600_001
    read_problem(await say(http, claimed, "heartbeat"), 409, "stale-lease")
    job = (await http.get(f"/v1/jobs/{claimed['job_id']}")).json()
    assert (job["state"], job["error"]["code"]) == ("queued", "timeout")


async def test_who_falls_silent_loses_its_jobs_and_who_beats_does_not(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock
) -> None:
    await submit("echo")
    await submit("echo")
    [silent], [beating] = await claim(http), await claim(http)
    sweeper = Sweeper(engine.store, clock, lease_s=30, sweep_s=5)
    for _ in range(4):
        await sweeper.sweep()
        clock.milliseconds += 11_000
        assert (await say(http, beating, "heartbeat")).status_code == 200
    await sweeper.sweep()
    assert await state(http, silent) == "queued"
    assert await state(http, beating) == "running"


async def test_a_worker_is_forgotten_with_its_last_job(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    await submit("echo")
    await submit("echo")
    first, second = await claim(http, max=2)
    [worker] = await engine.store.workers.list_workers()
    assert (worker.info.pid, worker.info.slots, worker.known_dead) == (0, 2, False)
    await say(http, first, "complete", result=1)
    assert len(await engine.store.workers.list_workers()) == 1
    await say(http, second, "complete", result=1)
    assert await engine.store.workers.list_workers() == []


async def test_a_claim_waits_for_a_job(http: httpx2.AsyncClient, submit: Submit) -> None:
    waiting = asyncio.create_task(claim(http, wait=60))
    await asyncio.sleep(0)
    job = await submit("echo")
    [claimed] = await waiting
    assert claimed["job_id"] == job["id"]


async def test_a_claim_of_nothing_leaves_nothing(http: httpx2.AsyncClient, engine: Engine) -> None:
    assert await claim(http) == []
    assert await engine.store.workers.list_workers() == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/kinds"),
        ({"kinds": []}, "/kinds"),
        ({"kinds": ["echo"], "max": 101}, "/max"),
        ({"kinds": ["echo"], "wait": 61}, "/wait"),
        ({"kinds": ["echo"], "what": 1}, "/what"),
        ({"kinds": ["nobody-has-it"]}, "/kind"),
    ],
)
async def test_a_claim_that_makes_no_sense_is_refused(
    http: httpx2.AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    answer = await http.post("/v1/claims", json=body)
    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("fence", ["0", "x", "-1", "9" * 30])
async def test_what_cannot_be_a_fence_is_not_found(
    http: httpx2.AsyncClient, submit: Submit, fence: str
) -> None:
    job = await submit("echo")
    read_problem(await http.post(f"/v1/jobs/{job['id']}/leases/{fence}/release"), 404, "not-found")


async def test_what_they_run_is_counted(http: httpx2.AsyncClient, submit: Submit) -> None:
    await submit("echo")
    [claimed] = await claim(http)
    for _ in range(2):
        await say(http, claimed, "complete", result=1)
    text = (await http.get("/metrics")).text
    assert 'coatcheck_jobs_started_total{kind="echo"} 1' in text
    assert 'coatcheck_jobs_finished_total{kind="echo",state="succeeded"} 1' in text
