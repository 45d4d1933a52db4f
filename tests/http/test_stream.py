"""`GET /v1/jobs/{id}/events` as a stream: every event once, in order, whoever is cut off."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.engine.engine import Engine
from coatcheck.http.jobs import events as module
from coatcheck.model.event import EventType, JobEvent, NewJobEvent
from coatcheck.model.job import Lease, Progress
from coatcheck.model.outcome import Succeeded
from coatcheck.store.base import Report, Settlement
from tests.engine.changing import turns
from tests.http.arrange import NOW_TEXT, Submit
from tests.http.problems import read_problem
from tests.http.streams import Stream

pytestmark = pytest.mark.anyio


async def take(engine: Engine, claimer: str) -> Lease:
    [claim] = (await engine.claim(claimer, list(engine.kinds), 1)).claims
    return claim.lease


async def say(engine: Engine, lease: Lease, *messages: str) -> None:
    events = tuple(NewJobEvent(EventType.LOG, json.dumps({"message": text})) for text in messages)
    assert await engine.report(lease, Report(events=events))


async def succeed(engine: Engine, lease: Lease, result: str = '"done"') -> None:
    assert await engine.settle([Settlement(lease, Succeeded(result))]) == [True]


async def test_a_job_is_told_from_its_beginning_to_its_end_as_it_happens(
    app: Starlette, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    async with Stream(app, job["id"]) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].partition(";")[0] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-store"
        assert await stream.next() == ("retry", None, 1000)
        assert await stream.next() == (
            "state",
            "1",
            {
                "seq": 1,
                "type": "state",
                "at": NOW_TEXT,
                "data": {"state": "queued", "attempt": 0},
            },
        )

        lease = await take(engine, claimer)
        started = await stream.next_told()
        assert started is not None
        assert (started.name, started.id) == ("state", "2")
        assert started.data["data"]["state"] == "running"

        await engine.report(lease, Report(progress=Progress(1, 2, "half")))
        half = await stream.next_told()
        assert half is not None
        assert (half.name, half.id) == ("progress", "3")
        assert half.data["data"] == {"done": 1, "total": 2, "message": "half"}

        await say(engine, lease, "line\nbreak", "naïve \u2028 🎟️")
        logs = [await stream.next_told(), await stream.next_told()]
        assert [(log.name, log.id, log.data["data"]["message"]) for log in logs if log] == [
            ("log", "4", "line\nbreak"),
            ("log", "5", "naïve \u2028 🎟️"),
        ]

        await succeed(engine, lease)
        last, end = await stream.rest()
        assert (last.name, last.id, last.data["data"]["state"]) == ("state", "6", "succeeded")
        assert (end.name, end.id, end.data["result"]) == ("end", "6", "done")


async def test_the_end_brings_the_job_as_it_can_be_read(
    app: Starlette, http: httpx2.AsyncClient, run: Submit
) -> None:
    job = await run("echo", {"a": 1})
    async with Stream(app, job["id"]) as stream:
        *_, end = await stream.rest()
    assert end.data == (await http.get(f"/v1/jobs/{job['id']}")).json()


@pytest.mark.parametrize("by", ["header", "query"])
async def test_whoever_is_cut_off_anywhere_comes_back_and_misses_nothing(
    app: Starlette, engine: Engine, submit: Submit, claimer: str, by: str
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    await say(engine, lease, *map(str, range(20)))
    seen: list[str | None] = []
    last: str | None = None
    while True:
        if last is None:
            stream = Stream(app, job["id"])
        elif by == "header":
            stream = Stream(app, job["id"], last_event_id=last)
        else:
            stream = Stream(app, job["id"], query=f"after={last}")
        async with stream:
            if stream.status == 204:
                break
            # Two at a time; in the middle the job goes on while nobody listens.
            for _ in range(2):
                event = await stream.next_told()
                if event is None:
                    break
                seen.append(event.id if event.name != "end" else "end")
                last = event.id
        if len(seen) == 10:
            await say(engine, lease, "more")
            await succeed(engine, lease)

    assert [one for one in seen if one != "end"] == [str(number) for number in range(1, 25)]


async def test_the_header_goes_before_the_query(app: Starlette, run: Submit) -> None:
    job = await run("echo")
    async with Stream(app, job["id"], query="after=0", last_event_id="2") as stream:
        assert [event.id for event in await stream.rest()] == ["3", "3"]


async def test_a_log_of_many_pages_comes_whole(
    app: Starlette, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    for start in range(0, 2 * module.PAGE, 100):
        await say(engine, lease, *(str(start + number) for number in range(100)))
    await succeed(engine, lease)
    async with Stream(app, job["id"]) as stream:
        events = await stream.rest()
    assert [event.id for event in events[:-1]] == [str(n) for n in range(1, 2 * module.PAGE + 4)]
    assert events[-1].name == "end"


async def test_who_has_seen_the_end_is_told_not_to_come_back(
    app: Starlette, http: httpx2.AsyncClient, run: Submit
) -> None:
    job = await run("echo")
    async with Stream(app, job["id"]) as stream:
        *_, end = await stream.rest()
    assert end.id is not None

    async with Stream(app, job["id"], last_event_id=end.id) as again:
        assert again.status == 204
        assert await again.rest() == []


async def test_a_number_that_never_was_is_answered_with_the_job_as_it_stands(
    app: Starlette, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    async with Stream(app, job["id"], last_event_id="900") as stream:
        reset = await stream.next_told()
        assert reset is not None
        assert (reset.name, reset.id, reset.data["state"]) == ("reset", "2", "running")
        await succeed(engine, lease)
        assert [event.name for event in await stream.rest()] == ["state", "end"]


@pytest.mark.parametrize("kept", [2, 0], ids=["the beginning is gone", "all of it is gone"])
async def test_a_log_that_no_longer_reaches_back_is_answered_with_the_job_as_it_stands(
    app: Starlette,
    engine: Engine,
    submit: Submit,
    claimer: str,
    monkeypatch: pytest.MonkeyPatch,
    kept: int,
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    await say(engine, lease, *"abcdef")
    whole = engine.store.jobs.list_events
    forgotten = 8 - kept

    async def events(*page: Any) -> list[JobEvent]:
        return [event for event in await whole(*page) if event.seq > forgotten]

    monkeypatch.setattr(engine.store.jobs, "list_events", events)
    async with Stream(app, job["id"], last_event_id="3") as stream:
        reset = await stream.next_told()
        assert reset is not None
        assert (reset.name, reset.id, reset.data["state"]) == ("reset", "8", "running")
        await succeed(engine, lease)
        assert [(event.name, event.id) for event in await stream.rest()] == [
            ("state", "9"),
            ("end", "9"),
        ]


async def test_a_read_that_began_too_early_is_made_again_and_not_taken_for_a_loss(
    app: Starlette, engine: Engine, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await submit("echo")
    whole, reads = engine.store.jobs.list_events, 0

    async def events(*page: Any) -> list[JobEvent]:
        nonlocal reads
        reads += 1
        return [] if reads == 1 else await whole(*page)

    monkeypatch.setattr(engine.store.jobs, "list_events", events)
    async with Stream(app, job["id"]) as stream:
        event = await stream.next_told()
        assert event is not None
        assert (event.name, event.id) == ("state", "1")


async def test_a_stream_in_which_nothing_happens_shows_that_it_lives(
    app: Starlette, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.HEARTBEAT_S == 15
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.001)
    job = await submit("echo")
    async with Stream(app, job["id"]) as stream:
        assert await stream.next_told() is not None
        for _ in range(3):
            event = await stream.next()
            assert event is not None
            assert event.name == "comment"


async def test_a_stream_ends_when_its_job_is_deleted_and_says_so_to_who_comes_back(
    app: Starlette, http: httpx2.AsyncClient, engine: Engine, submit: Submit
) -> None:
    job = await submit("echo")
    async with Stream(app, job["id"]) as stream:
        assert await stream.next_told() is not None
        # Both before the stream has had its turn.
        await engine.cancel(job["id"])
        await engine.delete(job["id"])
        events = await stream.rest()
    # What it told before the deletion is its business; it told nothing that was not so.
    assert [event.name for event in events] in ([], ["state"], ["state", "end"], ["reset"])
    read_problem(await http.get(f"/v1/jobs/{job['id']}/events"), 410, "gone")


async def test_a_stream_ends_when_the_server_stops_and_goes_on_at_another(
    app: Starlette, engine: Engine, submit: Submit
) -> None:
    job = await submit("echo")
    async with Stream(app, job["id"]) as stream:
        assert await stream.next_told() is not None
        engine.release_waiters()
        assert await stream.rest() == []


async def test_who_hangs_up_leaves_nothing_behind_and_cancels_nothing(
    app: Starlette, http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo")
    ours = {f"coatcheck-waiters-{what}" for what in ("read", "changes", "reports")}
    async with Stream(app, job["id"]) as stream:
        await stream.next_told()
        async with asyncio.timeout(20):
            while not ours <= {task.get_name() for task in asyncio.all_tasks()}:
                await turns(1)
    async with asyncio.timeout(20):
        while ours & {task.get_name() for task in asyncio.all_tasks()}:
            await turns(1)

    assert (await http.get(f"/v1/jobs/{job['id']}")).json()["state"] == "queued"


@pytest.mark.parametrize("number", ["", "-1", "1.0", "x", "1" * 19, "0x1", "١"])
async def test_a_number_that_is_none_is_refused(
    http: httpx2.AsyncClient, submit: Submit, number: str
) -> None:
    job = await submit("echo")
    path = f"/v1/jobs/{job['id']}/events"

    answer = await http.get(path, headers={b"Last-Event-ID": number.encode()})
    read_problem(answer, 400, "bad-request")
    if number != "1" * 19:
        read_problem(await http.get(path, params={"after": number}), 400, "bad-request")


@pytest.mark.parametrize(
    "query", ["wait=61", "limit=0", "limit=1001", "since=1", "after=1&after=2"]
)
async def test_a_query_that_makes_no_sense_is_refused(
    http: httpx2.AsyncClient, submit: Submit, query: str
) -> None:
    job = await submit("echo")
    answer = await http.get(f"/v1/jobs/{job['id']}/events?{query}")
    read_problem(answer, 400, "bad-request")


async def test_the_head_of_a_stream_ends(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    async with asyncio.timeout(20):
        answer = await http.head(f"/v1/jobs/{job['id']}/events")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b""


async def test_a_job_that_never_was_has_no_stream(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/events")
    read_problem(answer, 404, "not-found")
