"""`POST /v1/jobs/{id}/leases/{fence}/steps`: checkpoints of workers in any language."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from tests.http.arrange import NOW_TEXT, Submit
from tests.http.durable import steps_of
from tests.http.problems import read_problem
from tests.http.test_claims import claim, say

pytestmark = pytest.mark.anyio


async def record(
    http: httpx2.AsyncClient, claimed: dict[str, Any], *steps: dict[str, Any]
) -> httpx2.Response:
    return await say(http, claimed, "steps", steps=steps)


async def test_who_takes_a_job_over_reads_what_was_done(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")
    [claimed] = await claim(http)
    answer = await record(
        http,
        claimed,
        {"seq": 0, "name": "resize", "result": {"width": 80}},
        {"seq": 1, "name": "upload", "key": "eu", "attempts": 3, "result": None},
    )
    assert (answer.status_code, answer.json()["state"]) == (200, "running")
    await say(http, claimed, "release")

    [again] = await claim(http)

    assert again["fence"] > claimed["fence"]
    times = {"started_at": NOW_TEXT, "finished_at": NOW_TEXT}
    assert await steps_of(http, job) == [
        {
            "seq": 0,
            "op": "step",
            "name": "resize",
            "key": None,
            "occurrence": 0,
            "state": "succeeded",
            "attempts": 1,
            **times,
            "result": {"width": 80},
        },
        {
            "seq": 1,
            "op": "step",
            "name": "upload",
            "key": "eu",
            "occurrence": 0,
            "state": "succeeded",
            "attempts": 3,
            **times,
            "result": None,
        },
    ]


async def test_a_step_that_failed_may_succeed_later(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    job = await submit("echo")
    [claimed] = await claim(http)
    began = "2033-05-18T03:33:19.000Z"
    failed = {"seq": 0, "name": "upload", "state": "failed", "error": {"code": "full"}}
    assert (await record(http, claimed, {**failed, "started_at": began})).status_code == 200
    [step] = await steps_of(http, job)
    assert (step["state"], step["error"]["code"]) == ("failed", "full")
    assert (step["started_at"], "result" in step) == (began, False)

    succeeded = {"seq": 0, "name": "upload", "attempts": 2, "result": "there"}
    for _ in range(2):
        await record(http, claimed, succeeded)
    [step] = await steps_of(http, job)
    assert (step["state"], step["result"], "error" in step) == ("succeeded", "there", False)
    told = [event for event in await engine.events(job["id"]) if event.type == "step"]
    assert len(told) == 2, "written twice in the same words, it is told once"


async def test_a_stale_worker_writes_nothing(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    [claimed] = await claim(http)
    await say(http, claimed, "release")
    await claim(http)

    answer = await record(http, claimed, {"seq": 0, "name": "resize"})

    read_problem(answer, 409, "stale-lease")
    assert await steps_of(http, job) == []


async def test_what_makes_no_sense_is_not_written(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    [claimed] = await claim(http)
    await record(http, claimed, {"seq": 0, "name": "resize", "result": 1})
    fine = {"seq": 1, "name": "upload"}
    for bad, place in (
        ({"seq": 0, "name": "other"}, "/steps/1/seq"),
        ({"seq": 7, "name": "resize"}, "/steps/1/seq"),
        ({"seq": 1, "name": "other"}, "/steps/1/seq"),
        ({"seq": -1, "name": "other"}, "/steps/1/seq"),
        ({"name": "other"}, "/steps/1/seq"),
        ({"seq": 2, "name": ""}, "/steps/1/name"),
        ({"seq": 2, "name": "x", "state": "waiting"}, "/steps/1/state"),
        ({"seq": 2, "name": "x", "state": "failed"}, "/steps/1/error"),
        ({"seq": 2, "name": "x", "error": {"code": "e"}}, "/steps/1/error"),
        ({"seq": 2, "name": "x", "key": "k", "occurrence": 1}, "/steps/1/occurrence"),
        ({"seq": 2, "name": "x", "started_at": "now"}, "/steps/1/started_at"),
    ):
        found = read_problem(await record(http, claimed, fine, bad), 422, "invalid-payload")
        assert found["errors"][0]["pointer"] == place, bad
    read_problem(await say(http, claimed, "steps", steps=[]), 422, "invalid-payload")
    assert [step["name"] for step in await steps_of(http, job)] == ["resize"]
