"""`/v1/queues`: how deep they are, and holding one up."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from tests.http.arrange import NOW_TEXT, StoppedClock, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

EMPTY = {
    "paused": False,
    "ready": 0,
    "delayed": 0,
    "running": 0,
    "concurrency": None,
    "oldest_ready_at": None,
}


async def test_the_queues_of_the_kinds_are_there_before_any_job(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/queues")

    listed = [{"name": "default", **EMPTY}, {"name": "orders", **EMPTY}]
    assert answer.json() == {"queues": listed, "next_cursor": None}


async def test_a_queue_is_as_deep_as_its_jobs_say(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, clock: StoppedClock, claimer: str
) -> None:
    for _ in range(3):
        await submit("echo", queue="mine")
        clock.milliseconds += 1000
    await submit("echo", queue="mine", run_at="2040-01-01T00:00:00Z")

    queue = (await http.get("/v1/queues/mine")).json()
    assert queue == {
        "name": "mine",
        "paused": False,
        "ready": 3,
        "delayed": 1,
        "running": 0,
        "concurrency": None,
        "oldest_ready_at": NOW_TEXT,
    }
    await engine.claim(claimer, ["echo"], 1)
    queue = (await http.get("/v1/queues/mine")).json()
    assert (queue["ready"], queue["running"]) == (2, 1)
    assert queue["oldest_ready_at"] == "2033-05-18T03:33:21.000Z"
    names = [queue["name"] for queue in (await http.get("/v1/queues")).json()["queues"]]
    assert names == ["default", "mine", "orders"]


async def test_a_paused_queue_gives_out_nothing_until_it_is_resumed(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    await submit("echo")

    for _ in range(2):
        paused = await http.post("/v1/queues/default/pause")
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
        assert paused.json()["ready"] == 1
    assert (await engine.claim(claimer, ["echo"], 1)).claims == []
    assert (await http.get("/v1/queues/default")).json()["paused"] is True

    for _ in range(2):
        resumed = await http.post("/v1/queues/default/resume")
        assert (resumed.status_code, resumed.json()["paused"]) == (200, False)
    assert len((await engine.claim(claimer, ["echo"], 1)).claims) == 1


async def test_a_queue_can_be_paused_before_it_has_jobs(http: httpx2.AsyncClient) -> None:
    read_problem(await http.get("/v1/queues/tomorrow"), 404, "not-found")

    answer = await http.post("/v1/queues/tomorrow/pause")

    assert answer.json() == {"name": "tomorrow", **EMPTY, "paused": True}
    assert (await http.get("/v1/queues/tomorrow")).json() == answer.json()
    answer = await http.post("/v1/queues/tomorrow/resume")
    assert answer.json() == {"name": "tomorrow", **EMPTY}
    read_problem(await http.get("/v1/queues/tomorrow"), 404, "not-found")


@pytest.mark.parametrize("name", ["%00", "a%20b", "-a", "q" * 101, "%C3%A9", "a%0Ab"])
async def test_what_cannot_be_a_queue_is_refused(http: httpx2.AsyncClient, name: str) -> None:
    read_problem(await http.get(f"/v1/queues/{name}"), 404, "not-found")
    for verb in ("pause", "resume"):
        read_problem(await http.post(f"/v1/queues/{name}/{verb}"), 400, "bad-request")
    assert len((await http.get("/v1/queues")).json()["queues"]) == 2


async def test_queries_and_other_methods_are_refused(http: httpx2.AsyncClient) -> None:
    read_problem(await http.get("/v1/queues?paused=1"), 400, "bad-request")
    read_problem(await http.post("/v1/queues/default/pause?for=60"), 400, "bad-request")
    read_problem(await http.get("/v1/queues/default/pause"), 405, "method-not-allowed")
    read_problem(await http.delete("/v1/queues/default"), 405, "method-not-allowed")


async def test_a_queue_is_limited_and_the_limit_lifted(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    for _ in range(3):
        await submit("echo", queue="gpu")

    limited = await http.put("/v1/queues/gpu", json={"concurrency": 2})

    assert (limited.status_code, limited.json()["concurrency"]) == (200, 2)
    assert len((await engine.claim(claimer, ["echo"], 9)).claims) == 2
    assert (await http.get("/v1/queues/gpu")).json()["concurrency"] == 2
    lifted = await http.put("/v1/queues/gpu", json={"concurrency": None})
    assert lifted.json()["concurrency"] is None
    assert len((await engine.claim(claimer, ["echo"], 9)).claims) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"concurrency": 0},
        {"concurrency": -1},
        {"concurrency": "2"},
        {"concurrency": 1.5},
        {"concurrency": True},
        {"concurrency": 10**9},
        {"concurrency": 1, "paused": True},
        [],
    ],
)
async def test_a_limit_that_is_none_is_refused_and_changes_nothing(
    http: httpx2.AsyncClient, body: object
) -> None:
    await http.put("/v1/queues/gpu", json={"concurrency": 7})
    read_problem(await http.put("/v1/queues/gpu", json=body), 422, "invalid-payload")
    assert (await http.get("/v1/queues/gpu")).json()["concurrency"] == 7
    read_problem(await http.put("/v1/queues/-a", json={"concurrency": 1}), 400, "bad-request")
