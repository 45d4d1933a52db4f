"""What a tenant makes up by naming it is bounded, and listed in pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.open_requests import RequestLimits
from coatcheck.engine.submit.tenant_bounds import FRESH_S
from coatcheck.http.app import create_http_app
from coatcheck.store.base import Store
from tests.http.arrange import StoppedClock, connect
from tests.http.every_surface import whole_api
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

PEPPER = b"a pepper for tests"


@pytest.fixture
def engine(store: Store, gate: Gate, clock: StoppedClock) -> Engine:
    limits = RequestLimits(queues_per_tenant=3)
    kinds = declare_kinds(gate).kinds
    return Engine(store, kinds, clock, pepper=lambda: PEPPER, limits=limits)


async def submit(http: httpx2.AsyncClient, queue: str, **headers: str) -> httpx2.Response:
    job = {"kind": "echo", "queue": queue}
    return await http.post("/v1/jobs", json=job, headers=headers)


async def test_a_tenant_uses_a_bounded_number_of_queues(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    _, acme = await engine.authenticator.create_key("acme", ["admin"])
    _, other = await engine.authenticator.create_key("other", ["admin"])
    for name in ("a", "b", "c", "a"):
        assert (await submit(http, name, **{"X-Api-Key": acme})).status_code == 202

    refused = await submit(http, "d", **{"X-Api-Key": acme})

    read_problem(refused, 429, "quota-exceeded")
    assert refused.headers["ratelimit-policy"] == '"queue_names";q=3'
    assert int(refused.headers["retry-after"]) >= 1
    batch = {"jobs": [{"kind": "echo"}, {"kind": "echo", "queue": "e"}]}
    answer = await http.post("/v1/batches", json=batch, headers={"X-Api-Key": acme})
    read_problem(answer, 429, "quota-exceeded")
    assert (await submit(http, "default", **{"X-Api-Key": acme})).status_code == 202
    assert (await submit(http, "b", **{"X-Api-Key": acme})).status_code == 202
    assert (await submit(http, "d", **{"X-Api-Key": other})).status_code == 202


async def test_another_process_counts_what_is_there_and_forgets_what_is_gone(
    engine: Engine, http: httpx2.AsyncClient, store: Store, gate: Gate, clock: StoppedClock
) -> None:
    jobs = [(await submit(http, name)).json()["id"] for name in ("a", "b", "c")]
    again = Engine(
        store, declare_kinds(gate).kinds, clock, limits=RequestLimits(queues_per_tenant=3)
    )
    async with connect(create_http_app(again)) as second:
        read_problem(await submit(second, "d"), 429, "quota-exceeded")
        await http.post(f"/v1/jobs/{jobs[0]}/cancel")
        assert (await http.delete(f"/v1/jobs/{jobs[0]}")).status_code == 200
        clock.milliseconds += int(FRESH_S * 1000)
        assert (await submit(second, "d")).status_code == 202


async def test_queues_are_listed_in_pages(engine: Engine, http: httpx2.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await submit(http, name)
    names: list[str] = []
    pages: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        pages.append((await http.get("/v1/queues", params=query)).json())
        names += [queue["name"] for queue in pages[-1]["queues"]]
        cursor = pages[-1]["next_cursor"]
    whole = (await http.get("/v1/queues")).json()
    assert (
        names
        == [queue["name"] for queue in whole["queues"]]
        == ["a", "b", "c", "default", "orders"]
    )
    assert [len(page["queues"]) for page in pages] == [2, 2, 1]
    assert whole["next_cursor"] is None
    for bad in ("limit=0", "limit=1001", "cursor=x", "cursor="):
        read_problem(await http.get(f"/v1/queues?{bad}"), 400, "bad-request")


async def test_a_tenant_has_a_bounded_number_of_tasks(tmp_path: Path) -> None:
    async with whole_api(tmp_path, tenant_records=2) as api:
        acme, other = await api.key_for("acme"), await api.key_for("other")

        async def put(task_id: str, headers: dict[str, str]) -> httpx2.Response:
            task = {"id": task_id, "name": task_id, "owner": "o", "command": "echo hello"}
            return await api.http.put("/api/tasks", json=task, headers=headers)

        for task_id in ("one", "two", "one"):
            assert (await put(task_id, acme)).status_code in (200, 201)
        refused = await put("three", acme)
        assert refused.status_code == 429, refused.text
        assert int(refused.headers["retry-after"]) >= 1
        assert "limit" in refused.json()["message"]
        assert (await put("three", other)).status_code in (200, 201)
        assert (await api.http.delete("/api/tasks/one", headers=acme)).status_code < 300
        assert (await put("three", acme)).status_code in (200, 201)
