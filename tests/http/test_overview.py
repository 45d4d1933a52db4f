"""The calls that show the whole: `/v1/server`, `/v1/workers`, `/v1/throughput`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.metrics import Metrics
from coatcheck.engine.maintenance.throughput import MINUTE_MS, Throughput
from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import Failure
from coatcheck.model.outcome import Cancelled, GaveUp, Released, Succeeded
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import NOW, NOW_TEXT, StoppedClock, Submit
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, clock, pepper=lambda: b"a pepper for tests")


async def asked(http: httpx2.AsyncClient, path: str, key: str = "") -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = await http.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_without_keys_everybody_here_is_the_operator(http: httpx2.AsyncClient) -> None:
    assert await asked(http, "/v1/server") == {
        "version": version("coatcheck"),
        "now": NOW_TEXT,
        "needs_key": False,
        "surfaces": [],
        "caller": {"tenant": "default", "key_id": None, "operator": True, "scopes": ["admin"]},
    }


async def test_a_key_is_told_what_it_is_good_for(http: httpx2.AsyncClient) -> None:
    admin = (await http.post("/v1/keys", json={"scopes": ["admin"]})).json()["key"]
    body = {"tenant": "acme", "scopes": ["jobs:read:report", "jobs:read:mail", "jobs:cancel"]}
    headers = {"Authorization": f"Bearer {admin}"}
    made = (await http.post("/v1/keys", json=body, headers=headers)).json()

    caller = (await asked(http, "/v1/server", made["key"]))["caller"]

    assert caller == {
        "tenant": "acme",
        "key_id": made["id"],
        "operator": False,
        "scopes": ["jobs:cancel", "jobs:read:mail", "jobs:read:report"],
    }
    read_problem(await http.get("/v1/server"), 401, "unauthorized")
    for path in ("/v1/workers", "/v1/throughput"):
        answer = await http.get(path, headers={"Authorization": f"Bearer {made['key']}"})
        read_problem(answer, 403, "forbidden")


async def test_workers_are_listed_with_what_they_run(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    job = await submit("echo")
    await submit("echo")
    await engine.claim(claimer, ["echo"], 1)

    [worker] = (await asked(http, "/v1/workers"))["workers"]

    assert worker == {
        "id": claimer,
        "host": "here",
        "pid": 1,
        "kinds": [],
        "slots": 1,
        "started_at": NOW_TEXT,
        "lost": worker["lost"],
        "running": 1,
        "jobs": [{"id": job["id"], "tenant": "default", "kind": "echo", "started_at": NOW_TEXT}],
    }


async def test_what_ended_is_counted_by_minute_queue_and_kind(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock
) -> None:
    other = Metrics(engine.store, clock)  # another process
    for metrics in (engine.metrics, other):
        metrics.settled("mail", "slow", Succeeded("1"), last=False, ran_ms=1)
        metrics.settled("mail", "slow", Released(), last=False, ran_ms=1)
        await metrics.flush()
    clock.milliseconds += MINUTE_MS
    other.settled("mail", "slow", GaveUp(Failure("no", "no")), last=True, ran_ms=1)
    other.settled("mail", "slow", Cancelled(), last=True, ran_ms=1)
    await other.flush()

    found = (await asked(http, "/v1/throughput"))["ended"]

    assert [(each["queue"], each["kind"]) for each in found] == [("slow", "mail")] * 2
    counts = [(each["succeeded"], each["failed"], each["cancelled"]) for each in found]
    assert counts == [(2, 0, 0), (0, 1, 1)]
    assert [each["minute"] for each in found] == [
        "2033-05-18T03:33:00.000Z",
        "2033-05-18T03:34:00.000Z",
    ]

    clock.milliseconds = NOW + 60 * MINUTE_MS
    [left] = (await asked(http, "/v1/throughput"))["ended"]
    assert left["minute"] == "2033-05-18T03:34:00.000Z"


async def test_counts_that_could_not_be_written_are_tried_again(
    engine: Engine, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Throughput(engine.store, clock)
    counted.finished("slow", "mail", "succeeded")

    async def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(engine.store.records, "put_record", away)
        await counted.flush()
    counted.finished("slow", "mail", "succeeded")

    [minute] = await counted.last_hour()
    assert minute.succeeded == 2


async def test_an_input_is_read_back_as_long_as_it_is_kept(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    small = await submit("echo", {"a": [1, "ü"]})
    assert (await http.get(f"/v1/jobs/{small['id']}/input")).json() == {"a": [1, "ü"]}
    read_problem(await http.get("/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/input"), 404, "not-found")
    body = {"scopes": ["jobs:read:other"]}
    key = (await http.post("/v1/keys", json=body)).json()["key"]
    headers = {"Authorization": f"Bearer {key}"}
    answer = await http.get(f"/v1/jobs/{small['id']}/input", headers=headers)
    read_problem(answer, 403, "forbidden")
