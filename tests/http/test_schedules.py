"""`/v1/schedules`: jobs that come back by the clock."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from tests.http.arrange import JSON, NOW_TEXT, LogLines, StoppedClock
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

DAILY = {"kind": "echo", "input": {"n": 1}, "cron": "0 3 * * *", "timezone": "Europe/Berlin"}
OFTEN = {"kind": "echo", "input": None, "every_s": 60}
NIGHTLY = "/v1/schedules/nightly"


async def put(http: httpx2.AsyncClient, name: str = "nightly", **body: Any) -> dict[str, Any]:
    answer = await http.put(f"/v1/schedules/{name}", json={**OFTEN, **body})
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


async def test_a_schedule_is_made_and_read(http: httpx2.AsyncClient) -> None:
    made = await http.put(NIGHTLY, json=DAILY)

    assert (made.status_code, made.headers["Location"]) == (201, NIGHTLY)
    assert made.json() == {
        "name": "nightly",
        "kind": "echo",
        "input": {"n": 1},
        "cron": "0 3 * * *",
        "every_s": None,
        "start_at": None,
        "timezone": "Europe/Berlin",
        "queue": None,
        "priority": 0,
        "labels": {},
        "deadline_s": None,
        "max_attempts": None,
        "catch_up": "latest",
        "overlap": "allow",
        "declared": False,
        "paused": False,
        "next_at": "2033-05-19T01:00:00.000Z",
        "last_at": None,
        "last_job": None,
        "problem": None,
        "created_at": NOW_TEXT,
        "updated_at": NOW_TEXT,
        "links": {
            "self": NIGHTLY,
            "ticks": f"{NIGHTLY}/ticks",
            "jobs": "/v1/jobs?label=schedule:nightly",
        },
    }
    read = await http.get(NIGHTLY)
    assert (read.status_code, read.json()) == (200, made.json())


async def test_all_that_can_be_said_of_a_schedule_is_kept(http: httpx2.AsyncClient) -> None:
    said: dict[str, Any] = {
        "kind": "total",
        "input": {"customer": "é", "amounts": [1]},
        "every_s": 1.5,
        "start_at": "2040-01-01T00:00:00.000Z",
        "timezone": "UTC",
        "queue": "night",
        "priority": -3,
        "labels": {"b": "1", "a": "2"},
        "deadline_s": 90.5,
        "max_attempts": 2,
        "catch_up": "all",
        "overlap": "skip",
    }
    made = await put(http, **said)
    assert {name: made[name] for name in said} == said
    assert made["next_at"] == "2040-01-01T00:00:00.000Z"


async def test_a_schedule_is_changed_to_what_is_said(
    http: httpx2.AsyncClient, clock: StoppedClock
) -> None:
    made = await put(http, priority=5)
    clock.milliseconds += 1_000
    changed = await http.put(NIGHTLY, json={**OFTEN, "input": "other"})
    assert changed.status_code == 200
    assert "Location" not in changed.headers
    assert changed.json() == {
        **made,
        "input": "other",
        "priority": 0,
        "updated_at": "2033-05-18T03:33:21.000Z",
    }


async def test_schedules_are_listed_by_name_in_pages(http: httpx2.AsyncClient) -> None:
    nothing = await http.get("/v1/schedules")
    assert nothing.json() == {"schedules": [], "next_cursor": None}
    for name in ("b", "a", "c:d.e"):
        await put(http, name)
    page = (await http.get("/v1/schedules?limit=2")).json()
    assert [one["name"] for one in page["schedules"]] == ["a", "b"]
    rest = (await http.get(f"/v1/schedules?limit=2&cursor={page['next_cursor']}")).json()
    assert [one["name"] for one in rest["schedules"]] == ["c:d.e"]
    assert rest["next_cursor"] is None


async def test_a_tick_becomes_a_job_that_is_found_by_its_label(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock
) -> None:
    made = await put(http, labels={"team": "a"})
    clock.milliseconds += 60_000
    await engine.scheduler.fire_due()

    [job] = (await http.get(made["links"]["jobs"])).json()["jobs"]
    assert job["labels"] == {"team": "a", "schedule": "nightly"}
    assert job["run_at"] == made["next_at"] == "2033-05-18T03:34:20.000Z"
    stands = (await http.get(NIGHTLY)).json()
    assert (stands["last_job"], stands["last_at"]) == (job["id"], job["run_at"])
    assert stands["next_at"] == "2033-05-18T03:35:20.000Z"


async def test_a_schedule_is_paused_and_resumed(
    http: httpx2.AsyncClient, clock: StoppedClock
) -> None:
    await put(http)
    for _ in range(2):
        paused = await http.post(f"{NIGHTLY}/pause")
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
        assert paused.json()["next_at"] is None
    clock.milliseconds += 90_000
    for _ in range(2):
        resumed = await http.post(f"{NIGHTLY}/resume")
        assert (resumed.status_code, resumed.json()["paused"]) == (200, False)
        assert resumed.json()["next_at"] == "2033-05-18T03:35:20.000Z"


async def test_a_schedule_is_triggered(http: httpx2.AsyncClient) -> None:
    made = await put(http, input={"n": 7})
    answer = await http.post(f"{NIGHTLY}/trigger")
    job = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (202, f"/v1/jobs/{job['id']}")
    assert int(answer.headers["Retry-After"]) >= 0
    assert (job["state"], job["labels"]) == ("queued", {"schedule": "nightly"})
    assert (await http.get(f"/v1/jobs/{job['id']}")).json()["run_at"] == NOW_TEXT
    assert (await http.get(NIGHTLY)).json() == {**made, "last_job": job["id"]}


async def test_a_triggered_job_belongs_to_the_request(
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    await put(http)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"X-Correlation-Id": "mine", "traceparent": trace}
    job = (await http.post(f"{NIGHTLY}/trigger", headers=headers)).json()
    stored = await engine.get(job["id"])
    assert (stored.correlation_id, stored.traceparent) == ("mine", trace)


async def test_a_trigger_under_a_key_happens_once(http: httpx2.AsyncClient) -> None:
    await put(http)
    await put(http, "other")
    key = {"Idempotency-Key": "now"}
    first = await http.post(f"{NIGHTLY}/trigger", headers=key)
    again = await http.post(f"{NIGHTLY}/trigger", headers=key)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    await http.post(f"/v1/jobs/{first.json()['id']}/cancel")
    assert (await http.post(f"{NIGHTLY}/trigger", headers=key)).status_code == 200
    other = await http.post("/v1/schedules/other/trigger", headers=key)
    read_problem(other, 422, "idempotency-key-reused")


async def test_the_next_ticks_can_be_looked_at(http: httpx2.AsyncClient) -> None:
    await http.put(NIGHTLY, json={**DAILY, "cron": "30 2 * * sun"})
    answer = await http.get(f"{NIGHTLY}/ticks?limit=2")
    ticks = {"ticks": ["2033-05-22T00:30:00.000Z", "2033-05-29T00:30:00.000Z"]}
    assert (answer.status_code, answer.json()) == (200, ticks)
    assert len((await http.get(f"{NIGHTLY}/ticks")).json()["ticks"]) == 10
    await http.post(f"{NIGHTLY}/pause")
    assert (await http.get(f"{NIGHTLY}/ticks?limit=2")).json() == ticks


async def test_a_deleted_schedule_is_gone_and_its_jobs_stay(http: httpx2.AsyncClient) -> None:
    made = await put(http)
    job = (await http.post(f"{NIGHTLY}/trigger")).json()
    deleted = await http.delete(NIGHTLY)
    assert (deleted.status_code, deleted.json()) == (200, {**made, "last_job": job["id"]})
    assert (await http.get(f"/v1/jobs/{job['id']}")).status_code == 200
    read_problem(await http.get(NIGHTLY), 404, "not-found")
    read_problem(await http.delete(NIGHTLY), 404, "not-found")
    read_problem(await http.get(f"{NIGHTLY}/ticks"), 404, "not-found")
    for verb in ("pause", "resume", "trigger"):
        read_problem(await http.post(f"{NIGHTLY}/{verb}"), 404, "not-found")


async def test_what_an_app_declares_is_changed_there_only(
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    app = App()

    @app.job
    async def nothing(ctx: Context) -> None: ...

    app.schedule("nightly", nothing, every="1h")
    await engine.schedules.register(app.schedules.values())

    assert (await http.get(NIGHTLY)).json()["declared"] is True
    read_problem(await http.put(NIGHTLY, json=OFTEN), 409, "conflict")
    assert (await http.post(f"{NIGHTLY}/pause")).json()["paused"] is True
    assert (await http.delete(NIGHTLY)).status_code == 200


@pytest.mark.parametrize(
    ("change", "pointer", "detail"),
    [
        ({"cron": "0 25 * * *", "every_s": None}, "/cron", "hour: 25 is not between 0 and 23"),
        ({"cron": "0 3 * *", "every_s": None}, "/cron", "five fields"),
        ({"cron": "0 3 * * *"}, "/cron", "either a cron expression or an interval"),
        ({"every_s": None}, "/cron", "either a cron expression or an interval"),
        ({"every_s": 0.5}, "/every_s", "between a second and ten years"),
        ({"every_s": 1e300}, "/every_s", "between a second and ten years"),
        ({"every_s": "60"}, "/every_s", "number"),
        ({"timezone": "Berlin"}, "/timezone", "IANA name, such as Europe/Berlin"),
        ({"timezone": "../../etc/passwd"}, "/timezone", "IANA name"),
        ({"timezone": ""}, "/timezone", "IANA name"),
        ({"start_at": "tomorrow"}, "/start_at", "isoformat"),
        ({"start_at": "2030-01-01T00:00:00"}, "/start_at", "offset"),
        ({"kind": "unknown"}, "/kind", "this kind is not declared"),
        ({"kind": "total", "input": {"customer": 5}}, "/input/customer", "string"),
        ({"queue": "a b"}, "/queue", "letters"),
        ({"priority": 1001}, "/priority", "between"),
        ({"labels": {"schedule": "x"}}, "/labels/schedule", "by themselves"),
        ({"labels": {"?": "x"}}, "/labels", "letters"),
        ({"deadline_s": -1}, "/deadline_s", "more than 0"),
        ({"max_attempts": 0}, "/max_attempts", "between"),
        ({"catch_up": "some"}, "/catch_up", "'latest', 'skip' or 'all'"),
        ({"overlap": True}, "/overlap", "'allow' or 'skip'"),
        ({"run_at": None}, "/run_at", "not permitted"),
        ({"paused": True}, "/paused", "not permitted"),
    ],
)
async def test_what_cannot_work_is_refused_with_its_place(
    http: httpx2.AsyncClient, change: dict[str, Any], pointer: str, detail: str
) -> None:
    answer = await http.put(NIGHTLY, json={**OFTEN, **change})
    code = "unknown-kind" if pointer == "/kind" else "invalid-payload"
    problem = read_problem(answer, 422, code)
    places = {error["pointer"]: error["detail"] for error in problem["errors"]}
    assert detail in places[pointer]
    read_problem(await http.get(NIGHTLY), 404, "not-found")


async def test_what_is_no_schedule_at_all_is_refused(http: httpx2.AsyncClient) -> None:
    read_problem(await http.put(NIGHTLY, json=[]), 422, "invalid-payload")
    read_problem(await http.put(NIGHTLY, content=b"{", headers=JSON), 400, "bad-request")
    read_problem(await http.put(NIGHTLY, content=b"{}"), 415, "unsupported-media-type")
    read_problem(await http.post(NIGHTLY, json=OFTEN), 405, "method-not-allowed")
    read_problem(await http.get(f"{NIGHTLY}?x=1"), 400, "bad-request")
    await put(http)
    for limit in ("0", "101", "x"):
        read_problem(await http.get(f"{NIGHTLY}/ticks?limit={limit}"), 400, "bad-request")
    for query in ("limit=0", "limit=201", "cursor=x", "cursor="):
        read_problem(await http.get(f"/v1/schedules?{query}"), 400, "bad-request")


@pytest.mark.parametrize("name", ["%00", "a%20b", "-a", "s" * 101, "%C3%A9", "a%0Ab"])
async def test_what_cannot_be_a_name_is_refused(http: httpx2.AsyncClient, name: str) -> None:
    path = f"/v1/schedules/{name}"
    read_problem(await http.put(path, json=OFTEN), 400, "bad-request")
    read_problem(await http.get(path), 404, "not-found")
    read_problem(await http.delete(path), 404, "not-found")
    read_problem(await http.post(f"{path}/pause"), 404, "not-found")


async def test_inputs_of_schedules_are_not_logged(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock, log_lines: LogLines
) -> None:
    await put(http, input="a secret word")
    await http.post(f"{NIGHTLY}/trigger")
    clock.milliseconds += 60_000
    await engine.scheduler.fire_due()
    lines = log_lines()
    assert {"schedule created", "schedule triggered", "schedule fired"} <= {
        line["message"] for line in lines
    }
    assert "secret" not in str(lines)
