"""`GET /v1/jobs/{id}/events` as JSON: the same log, page by page."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.store.base import Report
from tests.http.arrange import NOW_TEXT, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

PAGES = {"Accept": "application/json"}


async def test_the_log_of_a_new_job(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}/events", headers=PAGES)

    assert answer.headers["content-type"] == "application/json"
    event = {
        "seq": 1,
        "type": "state",
        "at": NOW_TEXT,
        "data": {"state": "queued", "attempt": 0},
    }
    assert answer.json() == {"events": [event], "last": 1, "ended": False}


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
async def test_pages_bring_every_event_once(
    http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str, limit: int
) -> None:
    job = await submit("echo")
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    await engine.report(claim.lease, Report(events=(NewJobEvent(EventType.LOG, "{}"),) * 9))
    seen: list[int] = []
    while True:
        query = {"after": seen[-1] if seen else 0, "limit": limit}
        answer = await http.get(f"/v1/jobs/{job['id']}/events", params=query, headers=PAGES)
        page = answer.json()
        assert len(page["events"]) <= limit
        assert (page["last"], page["ended"]) == (11, False)
        if not page["events"]:
            break
        seen += [event["seq"] for event in page["events"]]

    assert seen == list(range(1, 12))


async def test_after_the_end_it_says_so(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}/events?after=3&wait=60", headers=PAGES)

    assert answer.json() == {"events": [], "last": 3, "ended": True}


async def test_a_wait_is_answered_by_the_next_event(
    http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    waiting = asyncio.create_task(
        http.get(f"/v1/jobs/{job['id']}/events?after=1&wait=60", headers=PAGES)
    )
    await http.get(f"/v1/jobs/{job['id']}")
    assert not waiting.done()

    await engine.claim(claimer, ["echo"], 1)

    async with asyncio.timeout(20):
        page = (await waiting).json()
    assert [event["data"]["state"] for event in page["events"]] == ["running"]
    assert page["last"] == 2


async def test_what_is_there_is_not_waited_for(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    async with asyncio.timeout(20):
        answer = await http.get(f"/v1/jobs/{job['id']}/events?after=0&wait=60", headers=PAGES)
    assert len(answer.json()["events"]) == 1


async def test_a_wait_that_runs_out_is_an_empty_page(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}/events?after=1&wait=0.01", headers=PAGES)

    assert answer.json() == {"events": [], "last": 1, "ended": False}


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("application/json", "application/json"),
        ("application/*", "application/json"),
        ("application/json, text/html", "application/json"),
        ("application/json, */*", "application/json"),
        ("application/json, text/event-stream;q=0", "application/json"),
        ("application/json, text/event-stream;q=0.000", "application/json"),
        ("text/event-stream", "text/event-stream; charset=utf-8"),
        ("text/event-stream, application/json", "text/event-stream; charset=utf-8"),
        ("text/*", "text/event-stream; charset=utf-8"),
        ("*/*", "text/event-stream; charset=utf-8"),
    ],
)
async def test_who_gets_the_stream_and_who_the_page(
    http: httpx2.AsyncClient, run: Submit, accept: str, media: str
) -> None:
    job = await run("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}/events", headers={"Accept": accept})

    assert answer.headers["content-type"] == media


async def test_who_takes_neither_is_told_so(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")

    answer = await http.get(f"/v1/jobs/{job['id']}/events", headers={"Accept": "image/png"})

    read_problem(answer, 406, "not-acceptable")
