"""Jobs that never were, and jobs that were and are gone."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import StoppedClock, StoredJobs, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
NEVER_MADE = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.mark.parametrize(
    "job_id",
    [
        NEVER_MADE,
        NEVER_MADE.lower(),
        "1",
        "%00",
        "..%2F..",
        "%F0%9F%8E%9F",
        "' OR 1=1 --",
        "a" * 4000,
    ],
    ids=lambda job_id: job_id[:26],
)
@pytest.mark.parametrize(
    ("method", "suffix"), [("GET", ""), ("GET", "?wait=60"), ("POST", "/cancel")]
)
async def test_a_job_that_never_was_is_not_found(
    http: httpx2.AsyncClient, method: str, suffix: str, job_id: str
) -> None:
    answer = await http.request(method, f"/v1/jobs/{job_id}{suffix}")

    read_problem(answer, 404, "not-found")


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/job", "/v1/jobs/x/y", "/v2/jobs", "//v1/jobs"])
async def test_a_path_that_leads_nowhere_is_not_found(http: httpx2.AsyncClient, path: str) -> None:
    read_problem(await http.get(f"http://localhost{path}"), 404, "not-found")


async def test_a_job_whose_retention_has_passed_is_gone_and_later_forgotten(
    http: httpx2.AsyncClient, submit: Submit, store: SQLiteStore, clock: StoppedClock
) -> None:
    job = await submit("echo", "confidential")
    await http.post(f"/v1/jobs/{job['id']}/cancel")

    clock.milliseconds += 7 * DAY_MS - 1
    await store.maintenance.sweep(clock.now())
    assert (await http.get(f"/v1/jobs/{job['id']}")).status_code == 200

    clock.milliseconds += 1
    await store.maintenance.sweep(clock.now())
    for method, suffix in (("GET", ""), ("GET", "?wait=60"), ("POST", "/cancel")):
        answer = await http.request(method, f"/v1/jobs/{job['id']}{suffix}")
        read_problem(answer, 410, "gone")
        assert "confidential" not in answer.text

    clock.milliseconds += 7 * DAY_MS + 1
    await store.maintenance.sweep(clock.now())
    read_problem(await http.get(f"/v1/jobs/{job['id']}"), 404, "not-found")


async def test_retention_never_takes_a_job_that_has_not_ended(
    http: httpx2.AsyncClient,
    submit: Submit,
    store: SQLiteStore,
    clock: StoppedClock,
    stored_jobs: StoredJobs,
) -> None:
    job = await submit("echo")

    clock.milliseconds += 3650 * DAY_MS
    await store.maintenance.sweep(clock.now())

    assert (await http.get(f"/v1/jobs/{job['id']}")).json()["state"] == "queued"
    assert len(await stored_jobs()) == 1


async def test_a_job_past_its_deadline_has_failed_for_that_reason(
    http: httpx2.AsyncClient, submit: Submit, store: SQLiteStore, clock: StoppedClock
) -> None:
    job = await submit("echo", deadline_s=2)

    clock.milliseconds += 2001
    await store.maintenance.sweep(clock.now())

    ended = (await http.get(f"/v1/jobs/{job['id']}")).json()
    assert ended["state"] == "failed"
    assert ended["reason"] == "expired"
    assert set(ended["error"]) == {"code", "message", "detail", "retryable"}
