"""Handing a job in and reading it back: what the first request of a newcomer does."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.ids import is_ulid, ulid_time
from coatcheck.model.job import Progress
from coatcheck.store.base import Report, Topic
from tests.http.arrange import NOW, NOW_TEXT, StoppedClock, StoredJobs, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


async def test_a_submitted_job_is_answered_whole_with_its_location(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "echo", "input": {"greeting": "hello"}})

    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/json"
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert is_ulid(job["id"])
    assert ulid_time(job["id"]) == NOW
    assert job == {
        "id": job["id"],
        "kind": "echo",
        "surface": "api",
        "queue": "default",
        "state": "queued",
        "phase": None,
        "reason": None,
        "attempt": 0,
        "max_attempts": 3,
        "priority": 0,
        "progress": None,
        "created_at": NOW_TEXT,
        "run_at": NOW_TEXT,
        "started_at": None,
        "finished_at": None,
        "expires_at": None,
        "labels": {},
        "parent": None,
        "forked_from": None,
        "result": None,
        "error": None,
        "artifacts": [],
        "links": {
            "self": f"/v1/jobs/{job['id']}",
            "result": f"/v1/jobs/{job['id']}/result",
            "steps": f"/v1/jobs/{job['id']}/steps",
            "events": f"/v1/jobs/{job['id']}/events",
            "cancel": f"/v1/jobs/{job['id']}/cancel",
        },
    }


async def test_a_job_can_be_read_as_soon_as_it_is_answered(http: httpx2.AsyncClient) -> None:
    submitted = await http.post("/v1/jobs", json={"kind": "echo", "input": [1, 2]})
    read = await http.get(submitted.headers["location"])

    assert read.status_code == 200
    assert read.headers["content-type"] == "application/json"
    assert read.json() == {**submitted.json(), "position": 1}


async def test_a_job_that_ran_shows_its_result_and_its_times(run: Submit) -> None:
    job = await run("total", {"customer": "Ada", "amounts": [2, 3]})

    assert job["state"] == "succeeded"
    assert job["result"] == 5
    assert job["error"] is None
    assert job["attempt"] == 1
    assert job["started_at"] == job["finished_at"] == NOW_TEXT
    assert job["expires_at"] == "2033-05-19T03:33:20.000Z"


async def test_a_job_shows_the_phase_and_progress_it_tells(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    await engine.report(claim.lease, Report(Progress(1, 2, "half of it"), "loading"))

    running = (await http.get(f"/v1/jobs/{job['id']}")).json()

    assert running["state"] == "running"
    assert running["phase"] == "loading"
    assert running["progress"] == {"done": 1, "total": 2, "message": "half of it"}


async def test_a_kind_without_input_is_submitted_without_one(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "nothing"})

    assert answer.status_code == 202


async def test_what_a_job_does_not_say_is_left_to_its_kind(submit: Submit) -> None:
    job = await submit("total", {"customer": "Ada", "amounts": []})

    assert job["queue"] == "orders"
    assert job["max_attempts"] == 5


async def test_a_job_can_choose_everything_its_kind_decides_otherwise(
    submit: Submit, stored_jobs: StoredJobs
) -> None:
    job = await submit(
        "total",
        {"customer": "Ada", "amounts": []},
        queue="urgent",
        priority=-7,
        labels={"team/name": "kitchen", "empty": ""},
        deadline_s=1.5,
        max_attempts=1,
    )

    assert job["queue"] == "urgent"
    assert job["priority"] == -7
    assert job["labels"] == {"team/name": "kitchen", "empty": ""}
    assert job["max_attempts"] == 1
    [stored] = await stored_jobs()
    assert stored.terms.deadline_at == NOW + 1500


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2034-01-31T09:00:00Z", "2034-01-31T09:00:00.000Z"),
        ("2034-01-31T09:00:00.1234+05:30", "2034-01-31T03:30:00.123Z"),
        ("2034-01-31T23:59:59.999-08:00", "2034-02-01T07:59:59.999Z"),
    ],
)
async def test_run_at_takes_any_offset_and_is_shown_in_utc(
    submit: Submit, written: str, shown: str
) -> None:
    job = await submit("echo", run_at=written)

    assert job["run_at"] == shown


async def test_a_job_for_later_is_not_claimed_before_its_time(
    submit: Submit, engine: Engine, claimer: str, clock: StoppedClock
) -> None:
    await submit("echo", run_at="2033-05-18T03:33:21Z")

    assert (await engine.claim(claimer, ["echo"], 10)).claims == []
    clock.milliseconds += 1000
    assert len((await engine.claim(claimer, ["echo"], 10)).claims) == 1


async def test_the_higher_priority_is_claimed_first(
    submit: Submit, engine: Engine, claimer: str
) -> None:
    ids = [(await submit("echo", priority=priority))["id"] for priority in (0, 5, -5)]

    claimed = (await engine.claim(claimer, ["echo"], 10)).claims

    assert [claim.lease.job_id for claim in claimed] == [ids[1], ids[0], ids[2]]


async def test_a_submit_wakes_whoever_waits_for_work(submit: Submit, engine: Engine) -> None:
    signal = engine.store.subscribe(Topic.WORK)

    await submit("echo")

    assert await signal.wait(30)
    signal.close()


@pytest.mark.parametrize(
    "when",
    ["2034-01-31T09:00:00", "2034-01-31", "tomorrow", "", 1_999_999_999_999, 5.0, True, {}],
    ids=repr,
)
async def test_a_time_that_is_not_rfc_3339_with_an_offset_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, when: Any
) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "echo", "run_at": when})

    body = read_problem(answer, 422, "invalid-payload")
    assert [error["pointer"] for error in body["errors"]] == ["/run_at"]
    assert await stored_jobs() == []


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
async def test_a_time_that_utc_cannot_write_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, when: str
) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "echo", "run_at": when})

    read_problem(answer, 422, "invalid-payload")
    assert await stored_jobs() == []
