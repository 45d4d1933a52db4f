"""Handlers in processes behave like handlers everywhere."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.event import EventType
from coatcheck.model.job import Progress
from coatcheck.model.state import Reason, State

from . import process_app
from .conftest import working
from .job_control import run
from .process_pool import ONE, TWO, pids_of, pool_of, result
from .rendezvous import ProcessHandle, Rendezvous

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> App:
    return process_app.app


async def test_def_and_async_def_both_run_in_a_process(engine: Engine) -> None:
    async with working(engine, ONE):
        assert result(await run(engine, "double", 21)) == 42
        assert result(await run(engine, "double_async", 21)) == 42
        first = result(await run(engine, "where"))
        second = result(await run(engine, "where"))
    assert first["pid"] == second["pid"] != os.getpid()
    assert first["parent"] == os.getpid()
    assert first["pid"] == first["session"] == first["group"]
    assert first["thread"] == "MainThread"


async def test_a_process_inherits_nothing_but_its_own_socket_and_the_outputs(
    engine: Engine,
) -> None:
    async with working(engine, ONE):
        seen = result(await run(engine, "where"))
    assert seen["stdin"] == ""
    found = dict(seen["descriptors"])
    assert found.pop("0") == "/dev/null"
    for output in ("1", "2"):
        found.pop(output)
    kinds = sorted(target.partition(":")[0] for target in found.values())
    # The wire, a loop's own (epoll, a socket pair) if there is one, and the listing itself.
    assert kinds.count("socket") == 1 or "anon_inode" in kinds
    assert not [target for target in found.values() if "jobs.db" in target]


async def test_the_context_describes_its_job(engine: Engine) -> None:
    async with working(engine, ONE):
        job = await run(engine, "about_itself")
    assert result(job) == [job.id, 1, False]


@pytest.mark.parametrize("kind", ["talk", "talk_async"])
async def test_a_thousand_reports_cost_few_writes_and_none_is_lost(
    engine: Engine, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []

    async def report(*arguments: Any) -> bool:
        reports.append(arguments)
        return await type(engine).report(engine, *arguments)

    monkeypatch.setattr(engine, "report", report)
    async with working(engine, ONE):
        job = await run(engine, kind, 1000)
    assert job.progress == Progress(1000, 1000, "so far")
    logs = [event for event in await engine.events(job.id) if event.type is EventType.LOG]
    assert [json.loads(event.data) for event in logs] == [{"message": "finished", "times": 1000}]
    assert len(reports) < 20


async def test_progress_is_seen_while_the_handler_runs(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, ONE):
        job = await engine.submit(Submission("talk_then_wait", str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        seen = await engine.wait_for_event(job, 2, 30)  # submitted, claimed, then this
        assert seen is not None
        assert (seen.progress, seen.phase) == (Progress(1, 2, "half way"), "talking")
        visitor.let_go()
        assert (await engine.wait(job.id, 30)).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("what", "code", "state", "reason"),
    [
        ("fail", "no-good", State.FAILED, Reason.ERROR),
        ("retry", "retry", State.FAILED, Reason.ERROR),
        ("exit", "handler-error", State.FAILED, Reason.ERROR),
        ("something", "handler-error", State.FAILED, Reason.ERROR),
    ],
)
async def test_exceptions_mean_the_same_in_a_process(
    engine: Engine, what: str, code: str, state: State, reason: Reason
) -> None:
    async with working(engine, ONE):
        job = await run(engine, "raises", what)
        assert result(await run(engine, "double", 1)) == 2
    assert (job.state, job.reason) == (state, reason)
    assert job.error is not None
    assert job.error.code == code
    if what == "something":
        assert job.error.message == "ValueError: something"
        assert "process_app.py" in (job.error.detail or "")


async def test_large_inputs_and_results_pass_both_ways_at_once(engine: Engine) -> None:
    async with working(engine, TWO):
        texts = ["a" * 5_000_000, "é" * 2_000_000]
        jobs = await asyncio.gather(
            *(run(engine, "echo", text) for text in texts), run(engine, "chatter", 500_000)
        )
    assert [result(job) for job in jobs[:2]] == texts
    assert result(jobs[2]) == "y" * 500_000
    logs = [event for event in await engine.events(jobs[2].id) if event.type is EventType.LOG]
    assert len(logs) == 10


async def test_two_hundred_short_jobs_through_two_processes_beside_others(engine: Engine) -> None:
    async with working(engine, TWO) as worker:
        pids = await pids_of(engine, worker)
        jobs = await asyncio.gather(
            *(run(engine, "double", n) for n in range(200)),
            *(run(engine, "on_the_loop") for _ in range(50)),
            *(run(engine, "pid") for _ in range(20)),
        )
        after = pool_of(worker).pids()
    # None was replaced. The second kind may have used one of the extra slots and its process.
    assert set(pids) <= set(after)
    assert len(after) <= len(pids) + 2
    assert [result(job) for job in jobs[:200]] == [n * 2 for n in range(200)]
    assert {result(job) for job in jobs[200:250]} == {os.getpid()}
    assert {result(job) for job in jobs[250:]} <= set(after)


async def test_never_more_is_claimed_than_there_are_processes(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, TWO):
        held = [await engine.submit(Submission("hold", str(rendezvous.port))) for _ in range(5)]
        visitors = [await rendezvous.arrival(), await rendezvous.arrival()]
        # The slots of the other pool are free, and stay so.
        for _ in range(20):
            assert (await run(engine, "on_the_loop")).state is State.SUCCEEDED
        states = [(await engine.get(job.id)).state for job in held]
        assert states.count(State.RUNNING) == 2
        assert states.count(State.QUEUED) == 3
        for _ in range(3):
            visitors.pop().let_go()
            visitors.append(await rendezvous.arrival())
        for visitor in visitors:
            visitor.let_go()
        assert {result(await engine.wait(job.id, 30)) for job in held} == {"held"}


async def test_a_process_is_replaced_after_so_many_jobs(engine: Engine) -> None:
    async with working(engine, replace(ONE, process_jobs=3)) as worker:
        [first] = await pids_of(engine, worker)
        life = ProcessHandle(first)
        pids = [first, *[result(await run(engine, "pid")) for _ in range(6)]]
        await life.end()
    assert pids[:3] == [first] * 3
    assert [pids.count(each) for each in dict.fromkeys(pids)] == [3, 3, 1]


async def test_idle_processes_cost_nothing(engine: Engine) -> None:
    async with working(engine, ONE):
        [child] = {result(await run(engine, "pid"))}
        await run(engine, "on_the_loop")
        # It may have become idle only just now, and a busy machine takes a while. A process that
        # polls 20 times a second is never idle for this long.
        async with asyncio.timeout(30):
            before = -1
            while before != (before := _switches(child)):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.5)  # the time in which nothing must happen


def _switches(pid: int) -> int:
    """Count the context switches of a process's threads."""
    found = 0
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        lines = (task / "status").read_text().splitlines()
        found += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return found


async def test_processes_end_with_their_worker(engine: Engine) -> None:
    async with working(engine, TWO) as worker:
        lives = [ProcessHandle(pid) for pid in await pids_of(engine, worker)]
    assert len(lives) == 2
    for life in lives:
        await life.end()
