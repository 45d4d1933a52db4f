"""`POST /v1/jobs/{id}/cancel`."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.outcome import Cancelled, Succeeded
from coatcheck.store.base import HeldJob, Settlement
from coatcheck.worker.worker import Worker
from tests.http.arrange import NOW_TEXT, Submit
from tests.http.kinds import Gate

pytestmark = pytest.mark.anyio


async def test_a_queued_job_is_cancelled_at_once(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")

    answer = await http.post(f"/v1/jobs/{job['id']}/cancel")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    cancelled = answer.json()
    assert cancelled["state"] == cancelled["reason"] == "cancelled"
    assert cancelled["finished_at"] == NOW_TEXT
    assert cancelled["attempt"] == 0
    assert (await http.get(f"/v1/jobs/{job['id']}")).json() == cancelled
    assert (await engine.claim(claimer, ["echo"], 10)).claims == []


async def test_a_running_job_is_only_told_until_its_worker_ends_it(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims

    told = await http.post(f"/v1/jobs/{job['id']}/cancel")

    assert told.status_code == 202
    assert told.json()["state"] == "running"
    assert told.json()["finished_at"] is None
    assert await engine.store.workers.list_held_jobs(claimer) == [
        HeldJob(claim.lease, cancel_requested=True)
    ]
    again = await http.post(f"/v1/jobs/{job['id']}/cancel")
    assert again.status_code == 202

    await engine.settle([Settlement(claim.lease, Cancelled())])
    ended = await http.get(f"/v1/jobs/{job['id']}")
    assert ended.json()["state"] == "cancelled"


async def test_a_handler_that_waits_is_stopped_by_a_cancel(
    http: httpx2.AsyncClient, submit: Submit, worker: Worker, gate: Gate
) -> None:
    job = await submit("until_cancelled")
    await gate.entered()

    await http.post(f"/v1/jobs/{job['id']}/cancel")
    ended = (await http.get(f"/v1/jobs/{job['id']}?wait=60")).json()

    assert ended["state"] == "cancelled"
    assert ended["result"] is None


async def test_a_job_that_succeeds_although_it_was_told_to_stop_has_succeeded(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    await http.post(f"/v1/jobs/{job['id']}/cancel")

    await engine.settle([Settlement(claim.lease, Succeeded('"just in time"'))])

    ended = (await http.get(f"/v1/jobs/{job['id']}")).json()
    assert ended["state"] == "succeeded"
    assert ended["result"] == "just in time"


@pytest.mark.parametrize(
    ("kind", "state"), [("echo", "succeeded"), ("give_up", "failed")], ids=["succeeded", "failed"]
)
async def test_a_job_that_has_ended_is_answered_unchanged(
    http: httpx2.AsyncClient, run: Submit, kind: str, state: str
) -> None:
    job = await run(kind, "a text")
    assert job["state"] == state

    answer = await http.post(f"/v1/jobs/{job['id']}/cancel")

    assert answer.status_code == 200
    assert answer.json() == job


async def test_cancelling_twice_changes_nothing_the_second_time(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    job = await submit("echo")
    first = await http.post(f"/v1/jobs/{job['id']}/cancel")
    events = await engine.events(job["id"])

    second = await http.post(f"/v1/jobs/{job['id']}/cancel")

    assert second.status_code == 200
    assert second.json() == first.json()
    assert await engine.events(job["id"]) == events
