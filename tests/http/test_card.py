"""`GET /v1/jobs/{id}/card`: what a progress card shows, in every state; once, and as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.app import create_http_app
from coatcheck.http.jobs.card_view import PlannedStep
from coatcheck.http.surfaces.base import Surface
from coatcheck.model.access import Scope
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Failure, Job, Lease, Progress
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.store.base import Report, Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.http.arrange import NOW, StoppedClock, Submit, connect, worker_info
from tests.http.durable import until_waiting
from tests.http.kinds import Gate
from tests.http.problems import read_problem
from tests.http.streams import Stream

pytestmark = pytest.mark.anyio

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
NOTHING = {"cancel": None, "resume": None, "fork": None}


async def card_of(http: httpx2.AsyncClient, job: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = await http.get(f"/v1/jobs/{job['id']}/card", headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def take(engine: Engine, claimer: str) -> Lease:
    [claim] = (await engine.claim(claimer, list(engine.kinds), 1)).claims
    return claim.lease


def done(seq: int, name: str, key: str | None = None, *, ms: int = 10, attempts: int = 1) -> Step:
    step_id = StepId(Op.STEP, name, key, 0)
    return Step(seq, step_id, StepState.SUCCEEDED, NOW, NOW + ms, attempts, result="1")


def links(job: dict[str, Any], *actions: str) -> dict[str, str | None]:
    return NOTHING | {action: f"/v1/jobs/{job['id']}/{action}" for action in actions}


async def test_a_queued_job_has_done_nothing_yet(  # I08
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    job = await submit("echo", labels={"title": "Yearly report"})
    assert await card_of(http, job) == {
        "title": "Yearly report",
        "state": "queued",
        "percent": 0,
        "steps": [],
        "message": None,
        "eta_s": None,
        "actions": links(job, "cancel", "fork"),
    }


async def test_a_running_job_shows_its_steps_one_line_a_name(  # I08, I09
    http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str, clock: StoppedClock
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    steps = (
        done(0, "read"),
        done(1, "embed", "0", ms=20),
        done(2, "embed", "1", ms=30, attempts=3),
    )
    progress = Progress(1, 4, "passages")
    await engine.report(lease, Report(progress, phase="embed", steps=steps))
    clock.milliseconds += 10_000

    assert await card_of(http, job) == {
        "title": "echo",
        "state": "running",
        "percent": 25,
        "steps": [
            line("read", "succeeded", 1, 1, 10),
            line("embed", "succeeded", 2, 2, 50, attempts=3),
        ],
        "message": "passages",
        "eta_s": 30,
        "actions": links(job, "cancel", "fork"),
    }


def line(
    name: str, state: str, done: int, total: int | None, ms: int = 0, attempts: int = 1
) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "done": done,
        "total": total,
        "ms": ms,
        "attempts": attempts if done else 0,
    }


async def test_a_job_that_succeeded_is_all_there(http: httpx2.AsyncClient, run: Submit) -> None:
    job = await run("ticket", "a1")
    card = await card_of(http, job)
    assert (card["state"], card["percent"], card["message"]) == ("succeeded", 100, None)
    assert card["steps"] == [line("reserve", "succeeded", 1, 1), line("charge", "succeeded", 1, 1)]
    assert (card["eta_s"], card["actions"]) == (None, links(job, "fork"))


async def test_a_job_that_failed_says_why_and_can_be_resumed(
    http: httpx2.AsyncClient, gate: Gate, run: Submit
) -> None:
    gate.is_sold_out = True
    job = await run("ticket", "a1")
    card = await card_of(http, job)
    assert (card["state"], card["percent"]) == ("failed", None)
    assert card["message"].endswith("there is no seat left")
    assert [(step["name"], step["state"]) for step in card["steps"]] == [
        ("reserve", "succeeded"),
        ("charge", "failed"),
    ]
    assert card["actions"] == links(job, "resume", "fork")
    assert (await http.post(card["actions"]["resume"])).status_code == 202


async def test_a_job_that_waits_and_is_cancelled(
    http: httpx2.AsyncClient, worker: Worker, submit: Submit
) -> None:
    job = await submit("sleeper")
    await until_waiting(http, job)
    card = await card_of(http, job)
    assert (card["state"], card["eta_s"]) == ("waiting", None)
    assert card["steps"][0]["state"] == "waiting"

    assert (await http.post(card["actions"]["cancel"])).status_code == 200
    card = await card_of(http, job)
    assert (card["state"], card["message"]) == ("cancelled", None)
    assert card["steps"][0]["state"] == "cancelled"
    assert card["actions"] == links(job, "resume", "fork")


async def test_a_job_that_was_told_to_stop_cannot_be_told_again(
    http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    await take(engine, claimer)
    assert (await http.post(f"/v1/jobs/{job['id']}/cancel")).status_code == 202
    assert (await card_of(http, job))["actions"] == links(job, "fork")


async def test_all_that_a_job_says_is_done_is_not_yet_its_end(
    http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    for progress, percent in ((Progress(4, 4), 99), (Progress(9, 4), 99), (Progress(3), None)):
        await engine.report(lease, Report(progress))
        assert (await card_of(http, job))["percent"] == percent


async def test_of_a_kind_whose_input_is_dropped_nothing_can_go_on(
    store: SQLiteStore, clock: StoppedClock
) -> None:
    app = App()

    @app.job("brief", drop_input_on_end=True)
    async def brief(ctx: Any, value: int) -> None: ...

    engine = Engine(store, app.kinds, clock)
    async with connect(create_http_app(engine)) as http:
        job = (await http.post("/v1/jobs", json={"kind": "brief", "input": 1})).json()
        assert (await card_of(http, job))["actions"] == links(job, "cancel", "fork")
        await http.post(f"/v1/jobs/{job['id']}/cancel")
        assert (await card_of(http, job))["actions"] == NOTHING


async def test_actions_are_those_of_the_callers_key(
    store: SQLiteStore, gate: Gate, clock: StoppedClock
) -> None:
    app = App()
    app.job("one")(nothing)
    app.job("other")(nothing)
    engine = Engine(store, app.kinds, clock, pepper=lambda: b"p" * 32)
    keys = engine.authenticator
    both = (await keys.create_key("acme", [Scope.READ, Scope.WRITE, Scope.CANCEL]))[1]
    reader = (await keys.create_key("acme", [Scope.READ]))[1]
    partly = (await keys.create_key("acme", ["jobs:read", "jobs:write:one", "jobs:cancel:other"]))[
        1
    ]
    stranger = (await keys.create_key("others", [Scope.READ]))[1]
    async with connect(create_http_app(engine)) as http:
        made = await http.post("/v1/jobs", json={"kind": "one"}, headers=bearer(both))
        job = made.json()
        for key, actions in ((both, ("cancel", "fork")), (reader, ()), (partly, ("fork",))):
            assert (await card_of(http, job, **bearer(key)))["actions"] == links(job, *actions)
        answer = await http.get(f"/v1/jobs/{job['id']}/card", headers=bearer(stranger))
        read_problem(answer, 404, "not-found")


async def nothing(ctx: Any) -> None: ...


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Planning(Surface):
    """A surface that knows the steps of its jobs."""

    name = "planning"

    def declare(self, app: App) -> None:
        app.job("build")(nothing)

    def planned_steps(self, job: Job) -> Sequence[PlannedStep]:
        total = None if job.progress is None else int(job.progress.total or 0)
        return [PlannedStep("read"), PlannedStep("embed", total), PlannedStep("publish")]


@pytest.mark.parametrize(
    ("outcome", "embed", "publish"),
    [
        (None, "running", "pending"),
        (Succeeded("1"), "succeeded", "skipped"),
        (GaveUp(Failure("odd", "it broke")), "failed", "pending"),
    ],
    ids=["running", "succeeded", "failed"],
)
async def test_a_surface_tells_which_steps_are_to_come(
    store: SQLiteStore, clock: StoppedClock, outcome: Any, embed: str, publish: str
) -> None:
    app, surface = App(), Planning()
    app.use(surface)
    engine = Engine(store, app.kinds, clock)
    job = await engine.submit(Submission("build", surface="planning"))
    shown = {"id": job.id}
    async with connect(create_http_app(engine, surfaces=[surface])) as http:
        assert (await card_of(http, shown))["steps"] == [
            line("read", "pending", 0, 1),
            line("embed", "pending", 0, None),
            line("publish", "pending", 0, 1),
        ]
        await store.workers.register_worker(worker_info("w"))
        lease = await take(engine, "w")
        steps = (done(0, "read"), done(1, "embed", "0"))
        await engine.report(lease, Report(Progress(1, 3), phase="embed", steps=steps))
        if outcome is not None:
            await engine.settle([Settlement(lease, outcome)])
        assert (await card_of(http, shown))["steps"] == [
            line("read", "succeeded", 1, 1, 10),
            line("embed", embed, 1, 3, 10),
            line("publish", publish, 0, 1),
        ]


async def test_no_card_of_no_job(http: httpx2.AsyncClient) -> None:
    read_problem(await http.get(f"/v1/jobs/{MISSING}/card"), 404, "not-found")


async def test_the_stream_tells_each_card_as_it_changes_and_ends(  # I09
    app: Starlette, http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    async with Stream(app, job["id"], of="card") as stream:
        assert stream.headers["content-type"].partition(";")[0] == "text/event-stream"
        assert await stream.next() == ("retry", None, 1000)
        first = await stream.next_told()
        assert first is not None
        assert (first.name, first.data) == ("card", await card_of(http, job))

        lease = await take(engine, claimer)
        running = await stream.next_told()
        assert running is not None and running.data["state"] == "running"

        await engine.report(lease, Report(Progress(1, 2, "half")))
        half = await stream.next_told()
        assert half is not None
        assert (half.data["percent"], half.data["message"]) == (50, "half")

        await engine.settle([Settlement(lease, Succeeded("1"))])
        [end] = await stream.rest()
        assert (end.name, end.data) == ("end", await card_of(http, job))

    async with Stream(app, job["id"], of="card", last_event_id=end.id or "") as again:
        assert again.status == 204


async def test_what_does_not_change_the_card_is_not_told(
    app: Starlette, engine: Engine, submit: Submit, claimer: str
) -> None:
    job = await submit("echo")
    lease = await take(engine, claimer)
    async with Stream(app, job["id"], of="card") as stream:
        await stream.next_told()
        await engine.report(lease, Report(events=(NewJobEvent(EventType.LOG, "{}"),)))
        await engine.report(lease, Report(Progress(1, 2)))
        told = await stream.next_told()
        assert told is not None and told.data["percent"] == 50
