"""`POST /v1/jobs/{id}/resume` and `POST /v1/resumptions`."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine import bulk
from coatcheck.engine.engine import Engine
from tests.http.arrange import StoppedClock, Submit
from tests.http.durable import end_of, steps_of
from tests.http.kinds import Gate
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def state_of(http: httpx2.AsyncClient, job: dict[str, Any]) -> str:
    return str((await http.get(f"/v1/jobs/{job['id']}")).json()["state"])


async def test_a_failed_job_goes_on_from_its_last_checkpoint(
    http: httpx2.AsyncClient, run: Submit, gate: Gate
) -> None:
    gate.is_sold_out = True
    job = await run("ticket", "a1")
    assert (job["state"], gate.steps_run) == ("failed", ["reserve", "charge"])
    gate.is_sold_out = False

    answer = await http.post(f"/v1/jobs/{job['id']}/resume")

    assert answer.status_code == 202
    assert (answer.json()["id"], answer.json()["reason"]) == (job["id"], "resumed")
    assert int(answer.headers["Retry-After"]) > 0
    ended = await end_of(http, job)
    assert (ended["state"], ended["result"]) == ("succeeded", "paid for A1")
    assert gate.steps_run == ["reserve", "charge", "charge"]
    assert [step["state"] for step in await steps_of(http, job)] == ["succeeded", "succeeded"]


async def test_a_cancelled_job_is_queued_again(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo", 1)
    await http.post(f"/v1/jobs/{job['id']}/cancel")

    resumed = (await http.post(f"/v1/jobs/{job['id']}/resume")).json()

    assert (resumed["state"], resumed["finished_at"], resumed["attempt"]) == ("queued", None, 0)


async def test_a_job_that_succeeded_stays_so_and_runs_no_step(
    http: httpx2.AsyncClient, run: Submit, gate: Gate
) -> None:
    job = await run("ticket", "a1")

    answer = await http.post(f"/v1/jobs/{job['id']}/resume")

    assert answer.status_code == 200
    assert answer.json() == job
    assert gate.steps_run == ["reserve", "charge"]


async def test_a_job_that_has_not_ended_is_answered_unchanged(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    job = await submit("echo", 1)
    for _ in range(2):
        answer = await http.post(f"/v1/jobs/{job['id']}/resume")
        assert answer.status_code == 200
    assert len(await engine.events(job["id"])) == 1


async def test_resuming_no_job(http: httpx2.AsyncClient) -> None:
    read_problem(await http.post(f"/v1/jobs/{MISSING}/resume"), 404, "not-found")


async def resume(http: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/v1/resumptions", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_all_failed_jobs_of_a_kind_are_counted_and_then_resumed(
    http: httpx2.AsyncClient, run: Submit, gate: Gate
) -> None:
    gate.is_sold_out = True
    tickets = [await run("ticket", f"a{n}") for n in range(3)]
    other = await run("crash", "no")
    gate.is_sold_out = False

    counted = await resume(http, kind="ticket", dry_run=True)
    assert counted == {"jobs": 3, "dry_run": True, "next_cursor": None}
    assert {await state_of(http, job) for job in tickets} == {"failed"}

    resumed = await resume(http, kind="ticket")
    assert resumed == {"jobs": 3, "dry_run": False, "next_cursor": None}
    assert {(await end_of(http, job))["state"] for job in tickets} == {"succeeded"}
    assert await state_of(http, other) == "failed"
    assert (await resume(http, kind="ticket"))["jobs"] == 0


async def test_jobs_are_chosen_by_state_queue_label_and_time(
    http: httpx2.AsyncClient, submit: Submit, clock: StoppedClock
) -> None:
    async def cancelled(**fields: Any) -> None:
        job = await submit("echo", **fields)
        await http.post(f"/v1/jobs/{job['id']}/cancel")

    await cancelled()
    await cancelled(queue="later")
    await cancelled(labels={"team": "a", "day": "1"})
    clock.milliseconds += 60_000
    await cancelled()

    async def count(**which: Any) -> int:
        found = await resume(http, state="cancelled", dry_run=True, **which)
        return int(found["jobs"])

    assert (await resume(http, dry_run=True))["jobs"] == 0, "the failed ones, unless told"
    assert await count() == 4
    assert await count(queue="later") == 1
    assert await count(labels={"team": "a"}) == 1
    assert await count(labels={"team": "a", "day": "2"}) == 0
    assert await count(created_after="2033-05-18T03:34:00Z") == 1
    assert await count(kind="nothing") == 0


async def test_many_jobs_are_resumed_page_by_page(
    http: httpx2.AsyncClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE", 2)
    jobs = [await submit("echo", n) for n in range(7)]
    for job in jobs:
        await http.post(f"/v1/jobs/{job['id']}/cancel")

    first = await resume(http, state="cancelled", limit=3)
    assert first["jobs"] == 3
    states = [await state_of(http, job) for job in jobs]
    assert states == ["cancelled"] * 4 + ["queued"] * 3, "the newest first"

    rest = await resume(http, state="cancelled", cursor=first["next_cursor"])
    assert (rest["jobs"], rest["next_cursor"]) == (4, None)
    assert {await state_of(http, job) for job in jobs} == {"queued"}


async def test_a_filter_that_makes_no_sense_resumes_nothing(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")
    await http.post(f"/v1/jobs/{job['id']}/cancel")
    for body, place in (
        ({"state": "running"}, "/state"),
        ({"stat": "failed"}, "/stat"),
        ({"created_after": "yesterday"}, "/created_after"),
        ({"limit": 0}, "/limit"),
        ({"labels": {"a": 1}}, "/labels/a"),
    ):
        answer = await http.post("/v1/resumptions", json=body)
        found = read_problem(answer, 422, "invalid-payload")
        assert [error["pointer"] for error in found["errors"]] == [place]
    answer = await http.post("/v1/resumptions", json={"state": "cancelled", "cursor": "!"})
    read_problem(answer, 400, "bad-request")
    assert await state_of(http, job) == "cancelled"
