"""`position`: a job's place in its queue, exact to a thousand."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from tests.http.arrange import StoppedClock, Submit

pytestmark = pytest.mark.anyio


async def position(http: httpx2.AsyncClient, job: dict[str, Any]) -> Any:
    return (await http.get(f"/v1/jobs/{job['id']}")).json().get("position")


async def test_jobs_stand_in_the_order_they_are_claimed_in(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    first, second = await submit("echo"), await submit("nothing")
    urgent = await submit("echo", priority=5)
    last = await submit("echo", priority=-5)
    elsewhere = await submit("echo", queue="elsewhere")

    jobs = (urgent, first, second, last, elsewhere)
    assert [await position(http, job) for job in jobs] == [1, 2, 3, 4, 1]
    taken = (await engine.claim(claimer, ["echo", "nothing"], 3)).claims
    assert [claim.lease.job_id for claim in taken] == [job["id"] for job in (urgent, first, second)]
    assert await position(http, last) == 1


async def test_only_a_job_that_is_due_and_waits_has_one(
    http: httpx2.AsyncClient, submit: Submit, clock: StoppedClock, engine: Engine, claimer: str
) -> None:
    later = await submit("echo", run_at="2033-05-18T03:33:30Z")
    assert await position(http, later) is None
    clock.milliseconds += 10_000
    assert await position(http, later) == 1
    await engine.claim(claimer, ["echo"], 1)
    assert await position(http, later) is None
    ended = await submit("echo")
    await http.post(f"/v1/jobs/{ended['id']}/cancel")
    assert await position(http, ended) is None


async def test_it_is_exact_to_a_thousand(http: httpx2.AsyncClient, submit: Submit) -> None:
    await http.post("/v1/batches", json={"jobs": [{"kind": "echo"}] * 999})
    thousandth = await submit("echo")
    after = await submit("echo")

    assert await position(http, thousandth) == 1000
    assert await position(http, after) == "1000+"
