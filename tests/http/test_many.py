"""`POST /v1/cancellations` and `POST /v1/deletions`: all jobs that a filter finds."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine import bulk
from coatcheck.engine.engine import Engine
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import NOW, StoppedClock, Submit
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, clock, pepper=lambda: b"a pepper for tests")


async def done(http: httpx2.AsyncClient, call: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/v1/{call}", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def states(http: httpx2.AsyncClient) -> list[str]:
    return [job["state"] for job in (await http.get("/v1/jobs")).json()["jobs"]]


async def test_jobs_are_counted_then_cancelled_page_by_page(
    http: httpx2.AsyncClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE", 2)
    for n in range(5):
        await submit("echo", n, labels={"team": "a"})
    await submit("echo", "other")
    which = {"state": "queued", "labels": {"team": "a"}}

    counted = await done(http, "cancellations", **which, dry_run=True)
    assert counted == {"jobs": 5, "dry_run": True, "next_cursor": None}
    assert await states(http) == ["queued"] * 6

    first = await done(http, "cancellations", **which, limit=3)
    assert first["jobs"] == 3
    rest = await done(http, "cancellations", **which, cursor=first["next_cursor"])
    assert (rest["jobs"], rest["next_cursor"]) == (2, None)
    assert await states(http) == ["queued", *["cancelled"] * 5]


async def test_a_running_job_is_told(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")
    await engine.claim(claimer, ["echo"], 1)

    assert (await done(http, "cancellations", state="running"))["jobs"] == 1

    assert (await engine.get(job["id"])).cancel_requested


async def test_jobs_are_deleted_with_all_they_have(
    http: httpx2.AsyncClient, submit: Submit, clock: StoppedClock
) -> None:
    ids = []
    for n in range(3):
        clock.milliseconds = NOW + 60_000 * n
        ids.append((await submit("echo", n))["id"])
        await http.post(f"/v1/jobs/{ids[-1]}/cancel")
    which = {"state": "cancelled", "created_before": "2033-05-18T03:35:20Z"}

    assert (await done(http, "deletions", **which, dry_run=True))["jobs"] == 2
    assert (await done(http, "deletions", **which))["jobs"] == 2

    [left] = (await http.get("/v1/jobs")).json()["jobs"]
    assert left["id"] == ids[-1]
    assert (await done(http, "deletions", **which))["jobs"] == 0


async def test_what_makes_no_sense_changes_nothing(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    await submit("echo")
    for call, body, place in (
        ("cancellations", {}, "/state"),
        ("cancellations", {"state": "failed"}, "/state"),
        ("deletions", {}, "/state"),
        ("deletions", {"state": "queued"}, "/state"),
        ("deletions", {"state": "failed", "created_before": "tomorrow"}, "/created_before"),
        ("deletions", {"state": "failed", "limit": 1001}, "/limit"),
    ):
        found = read_problem(await http.post(f"/v1/{call}", json=body), 422, "invalid-payload")
        assert [error["pointer"] for error in found["errors"]] == [place]
    assert await states(http) == ["queued"]


async def test_each_needs_its_scope(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    made = await http.post("/v1/keys", json={"scopes": ["jobs:read", "jobs:cancel:other"]})
    headers = {"Authorization": f"Bearer {made.json()['key']}"}
    for call, state in (("cancellations", "queued"), ("deletions", "failed")):
        answer = await http.post(f"/v1/{call}", json={"state": state}, headers=headers)
        read_problem(answer, 403, "forbidden")
    answer = await http.get(f"/v1/jobs/{job['id']}", headers=headers)
    assert answer.json()["state"] == "queued"
