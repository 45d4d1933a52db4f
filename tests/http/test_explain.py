"""`?explain=1`: what holds a job, each reason by its stable code."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.explain import explain
from coatcheck.model.job import Failure
from coatcheck.model.outcome import Errored
from coatcheck.model.state import State
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import RegisteredWorker, Settlement
from tests.engine.changing import ChangingStore
from tests.http.arrange import NOW, NOW_TEXT, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


@pytest.fixture
async def worker_id(engine: Engine) -> str:
    """A worker with two slots for two of the kinds, which claims only when told to."""
    info = WorkerInfo("w-1", "here", 4711, ("echo", "crash"), 2, NOW)
    await engine.store.workers.register_worker(info)
    return "w-1"


async def reasons(http: httpx2.AsyncClient, job: dict[str, Any]) -> dict[str, str]:
    answer = await http.get(f"/v1/jobs/{job['id']}?explain=1")
    assert answer.status_code == 200
    found = answer.json()["explain"]
    assert all(set(why) == {"code", "message"} for why in found)
    return {why["code"]: why["message"] for why in found}


async def test_without_the_question_there_is_no_answer(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")
    for query in ("", "?explain=0", "?explain=false"):
        assert "explain" not in (await http.get(f"/v1/jobs/{job['id']}{query}")).json()
    assert "explain" in (await http.get(f"/v1/jobs/{job['id']}?explain=true")).json()
    for query in ("explain=yes", "explain=", "explain=1&explain=1"):
        read_problem(await http.get(f"/v1/jobs/{job['id']}?{query}"), 400, "bad-request")


async def test_no_worker(http: httpx2.AsyncClient, submit: Submit) -> None:
    found = await reasons(http, await submit("echo"))
    assert set(found) == {"no-worker"}
    assert "there are no workers" in found["no-worker"]


async def test_only_workers_with_other_kinds(
    http: httpx2.AsyncClient, submit: Submit, worker_id: str
) -> None:
    found = await reasons(http, await submit("nothing"))
    assert set(found) == {"no-worker"}
    assert "1 other worker(s)" in found["no-worker"]


async def test_due(http: httpx2.AsyncClient, submit: Submit, worker_id: str) -> None:
    assert set(await reasons(http, await submit("echo"))) == {"due"}


async def test_behind_and_then_busy(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, worker_id: str
) -> None:
    *_, job = [await submit("echo") for _ in range(3)]
    assert "2 job(s)" in (await reasons(http, job))["behind"]

    await engine.claim(worker_id, ["echo"], 2)

    found = await reasons(http, job)
    assert set(found) == {"busy"}
    assert "all 2 slot(s)" in found["busy"]


async def test_delayed(http: httpx2.AsyncClient, submit: Submit, worker_id: str) -> None:
    found = await reasons(http, await submit("echo", run_at="2040-01-01T00:00:00Z"))
    assert set(found) == {"delayed"}
    assert "2040-01-01T00:00:00.000Z" in found["delayed"]


async def test_backing_off(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, worker_id: str
) -> None:
    job = await submit("echo")
    [claim] = (await engine.claim(worker_id, ["echo"], 1)).claims
    failed = Errored(Failure("boom", "once"), retry_after_ms=60_000)
    await engine.settle([Settlement(claim.lease, failed)])

    found = await reasons(http, job)

    assert set(found) == {"backing-off"}
    assert "attempt 1 failed" in found["backing-off"]


async def test_paused_and_everything_else_that_holds_it(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo", run_at="2040-01-01T00:00:00Z")
    await http.post("/v1/queues/default/pause")

    found = await reasons(http, job)

    assert list(found) == ["delayed", "paused", "no-worker"]
    assert "coatcheck queues resume default" in found["paused"]


async def test_leased_and_cancelling(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, worker_id: str
) -> None:
    job = await submit("echo")
    await engine.claim(worker_id, ["echo"], 1)

    found = await reasons(http, job)
    assert set(found) == {"leased"}
    assert "w-1 (process 4711 on here) runs attempt 1 of 3" in found["leased"]
    assert NOW_TEXT in found["leased"]

    await http.post(f"/v1/jobs/{job['id']}/cancel")
    assert list(await reasons(http, job)) == ["cancelling", "leased"]


async def test_a_worker_that_is_known_to_be_dead(
    http: httpx2.AsyncClient,
    submit: Submit,
    engine: Engine,
    worker_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = await submit("echo")
    await engine.claim(worker_id, ["echo"], 1)
    [seen] = await engine.store.workers.list_workers()

    async def dead() -> list[RegisteredWorker]:
        return [seen._replace(known_dead=True)]

    monkeypatch.setattr(engine.store.workers, "list_workers", dead)
    found = await reasons(http, job)
    assert set(found) == {"lost-worker"}
    assert "w-1" in found["lost-worker"]


async def test_ended(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    await http.post(f"/v1/jobs/{job['id']}/cancel")
    assert set(await reasons(http, job)) == {"ended"}


async def test_waiting_without_saying_for_what() -> None:
    """What it waits for is told from its steps: test_steps.py."""
    store = ChangingStore()
    store.add("a")
    store.move("a", state=State.WAITING)
    [why] = explain(store.rows["a"], NOW, queue=None, workers=[], ahead=0)
    assert why.code == "waiting"
