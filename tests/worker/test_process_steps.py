"""Steps and waits of handlers in processes, over the wire."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.model.event import EventType
from coatcheck.model.kind import Backoff
from coatcheck.model.state import State

from . import process_app
from .conftest import SETTINGS, working
from .job_control import ended, lose, result_of, run, said, submit, until
from .rendezvous import ProcessHandle, Rendezvous

pytestmark = pytest.mark.anyio

ONE = replace(SETTINGS, processes=1)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    app = process_app.app
    at_once = replace(app.kinds["two_steps"], backoff=Backoff(0, 0))
    monkeypatch.setitem(app._kinds, "two_steps", at_once)
    return app


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def ran(path: Path) -> Counter[str]:
    """Count how often each step has run."""
    return Counter(path.read_text().split())


def write(path: Path, words: str) -> None:
    path.write_text(words)


@pytest.mark.parametrize("kind", ["journey", "journey_async"])
async def test_a_handler_in_a_process_replays_its_steps(
    engine: Engine, path: Path, kind: str
) -> None:
    async with working(engine, ONE):
        job_id = await submit(engine, kind, str(path))
        job = await until(engine, job_id, State.WAITING)
        assert (await run(engine, "double", 1)).result == "2", "the process is free"
        await until(engine, job_id, State.WAITING, after=job.last_event)
        await engine.store.jobs.send_event("default", job_id, "go", '"now"', engine.clock.now())
        assert await result_of(engine, job_id) == ["first", "now", [0, 2, 4], 1]
    assert ran(path) == {"first": 1, "second": 1}
    assert len(await said(engine, job_id, EventType.LOG)) == 1


async def test_a_process_killed_in_a_step_is_retried(
    engine: Engine, path: Path, rendezvous: Rendezvous
) -> None:
    async with working(engine, ONE):
        job_id = await submit(engine, "two_steps", [str(path), rendezvous.port])
        ProcessHandle((await rendezvous.arrival()).pid).kill()
        assert await result_of(engine, job_id) == ["second", 2]
    assert ran(path) == {"first": 1, f"{job_id}/second#0": 2}


async def test_a_worker_lost_during_a_step_of_a_process(
    engine: Engine, path: Path, rendezvous: Rendezvous
) -> None:
    async with working(engine, replace(ONE, lease_s=0.2)) as worker:
        job_id = await submit(engine, "two_steps", [str(path), rendezvous.port])
        visitor = await rendezvous.arrival()
        await lose(engine, worker)
        visitor.let_go()
        assert await result_of(engine, job_id) == ["second", 2]
    assert ran(path) == {"first": 1, f"{job_id}/second#0": 2}
    told = await said(engine, job_id, EventType.STEP)
    assert [step["name"] for step in told] == ["note", "second"]  # type: ignore[index]


async def test_cancel_in_a_step_of_a_process(
    engine: Engine, path: Path, rendezvous: Rendezvous
) -> None:
    async with working(engine, ONE):
        job_id = await submit(engine, "two_steps", [str(path), rendezvous.port])
        visitor = await rendezvous.arrival()
        await engine.cancel(job_id)
        visitor.let_go()
        assert (await ended(engine, job_id)).state is State.CANCELLED
    assert len(await engine.store.jobs.list_steps("default", job_id)) == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [("missing", "UnknownKind: there is no kind 'missing'"), ("double", "InvalidPayload: ")],
)
async def test_errors_of_the_worker_are_raised_in_the_process(
    engine: Engine, kind: str, words: str
) -> None:
    async with working(engine, ONE):
        job_id = await submit(engine, "spawns_what_is_not_there", kind)
        assert words in str(await result_of(engine, job_id))
    assert await engine.store.jobs.list_steps("default", job_id) == []


async def test_a_failure_that_was_caught_in_a_process(engine: Engine, path: Path) -> None:
    async with working(engine, ONE):
        job_id = await submit(engine, "outlives_a_failure", str(path))
        assert await result_of(engine, job_id) == "OSError: the line is dead"
    assert ran(path) == {"tried": 1}


async def test_changed_code_is_rejected_in_a_process(engine: Engine, path: Path) -> None:
    write(path, "a b fail")
    async with working(engine, ONE):
        job_id = await submit(engine, "takes_what_a_file_says", str(path))
        await ended(engine, job_id)
        write(path, "a")
        await engine.resume(job_id)
        job = await ended(engine, job_id)
        assert job.error is not None
        assert job.error.code == "steps-changed"
        assert "recorded step 'upper' with key 'b'" in job.error.message
        write(path, "a b")
        await engine.resume(job_id)
        assert await result_of(engine, job_id) == ["A", "B"]


async def test_a_child_that_failed_a_parent_in_a_process(engine: Engine, path: Path) -> None:
    leaf = path.with_name("leaf")
    write(leaf, "fail")
    write(path, f"child:{leaf} a fail")
    async with working(engine, ONE):
        job_id = await submit(engine, "takes_what_a_file_says", str(path))
        await ended(engine, job_id)
        write(leaf, "")
        child = (await engine.store.jobs.list_steps("default", job_id))[0].result or ""
        await engine.resume(child.strip('"'))
        assert await result_of(engine, child.strip('"')) == []
        write(path, f"child:{leaf} a")
        await engine.resume(job_id)
        assert await result_of(engine, job_id) == ["closed", "A"]
