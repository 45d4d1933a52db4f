"""How handlers in processes are stopped, and what their deaths affect."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.state import Reason, State

from . import process_app
from .conftest import working
from .job_control import run
from .process_pool import ONE, TWO, pids_of, pool_of, result
from .rendezvous import ProcessHandle, Rendezvous

pytestmark = pytest.mark.anyio

IMPATIENT = replace(TWO, grace_s=0.1)


@pytest.fixture
def app() -> App:
    return process_app.app


async def test_a_handler_that_ignores_its_timeout_is_killed_and_frees_its_slot(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, replace(IMPATIENT, processes=1)):
        # its timeout is short, so the process should be running already
        await run(engine, "double", 0)
        job = await engine.submit(Submission("deaf", str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
        ended = await engine.wait(job.id, 30)
        await life.end()
        assert result(await run(engine, "double", 1)) == 2
    assert (ended.state, ended.reason, ended.attempt) == (State.FAILED, Reason.TIMEOUT, 1)
    assert ended.error is not None
    assert ended.error.code == "timeout"


async def test_a_handler_that_holds_the_interpreter_lock_is_killed(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, IMPATIENT):
        # its timeout is short, so the process should be running already
        await run(engine, "double", 0)
        job = await engine.submit(Submission("holds_the_interpreter", str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
        ended = await engine.wait(job.id, 30)
        await life.end()
    assert (ended.state, ended.reason) == (State.FAILED, Reason.TIMEOUT)


@pytest.mark.parametrize("kind", ["step_holds_the_interpreter", "step_holds_its_thread"])
async def test_a_fatal_step_timeout_kills_the_process_and_is_not_retried(
    engine: Engine, rendezvous: Rendezvous, kind: str
) -> None:
    async with working(engine, replace(IMPATIENT, processes=1)):
        job = await engine.submit(Submission(kind, str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
        ended = await engine.wait(job.id, 30)
        await life.end()
        assert result(await run(engine, "double", 1)) == 2
    assert (ended.state, ended.attempt) == (State.FAILED, 1)
    assert ended.error is not None
    step = "hold_the_interpreter" if kind == "step_holds_the_interpreter" else "meet"
    assert ended.error.code == "step-timeout"
    assert ended.error.message == f"step {step!r} took longer than 0.3 s"


async def test_a_fatal_step_within_its_limit_keeps_the_process(engine: Engine) -> None:
    async with working(engine, replace(IMPATIENT, processes=1)) as worker:
        pid = result(await run(engine, "step_is_in_time"))
        assert pool_of(worker).pids() == [pid]
        [process] = pool_of(worker)._processes
        assert process._limits == {}


async def test_a_cancelled_async_handler_keeps_its_process(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, replace(ONE, grace_s=30)):
        # its timeout is short, so the process should be running already
        await run(engine, "double", 0)
        job = await engine.submit(Submission("polite_async", str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        assert visitor.words == "stopped True"
        visitor.let_go()
        ended = await engine.wait(job.id, 30)
        assert result(await run(engine, "pid")) == visitor.pid
    assert (ended.state, ended.reason) == (State.FAILED, Reason.TIMEOUT)


async def test_a_cancelled_handler_stops_at_its_next_call_of_ctx(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, replace(ONE, grace_s=30)):
        job = await engine.submit(Submission("until_cancelled", str(rendezvous.port)))
        begun = await rendezvous.arrival()
        await engine.cancel(job.id)
        begun.let_go()
        stopped = await rendezvous.arrival()
        assert stopped.words == "stopped Interrupted"
        stopped.let_go()
        ended = await engine.wait(job.id, 30)
        assert result(await run(engine, "pid")) == begun.pid
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCELLED)


async def test_cancelling_kills_the_process_group_after_the_grace_period(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, IMPATIENT):
        job = await engine.submit(Submission("with_grandchild", str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        lives = [ProcessHandle(visitor.pid), ProcessHandle(int(visitor.words))]
        await engine.cancel(job.id)
        ended = await engine.wait(job.id, 30)
        for life in lives:
            await life.end()
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCELLED)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("segfault", "crashed (SIGSEGV)"),
        ("abort", "crashed (SIGABRT)"),
        ("exit", "exited with status 3"),
        ("exit-0", "exited with status 0"),
        ("kill", "was killed (SIGKILL)"),
        # It exits with status 1, unless it is killed first for the closed socket.
        ("close", "the process that ran the handler"),
        ("scribble", "was killed (SIGKILL)"),
    ],
)
async def test_a_process_that_dies_fails_its_job_and_no_other(
    engine: Engine, rendezvous: Rendezvous, how: str, says: str
) -> None:
    async with working(engine, TWO):
        other = await engine.submit(Submission("hold", str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        job = await run(engine, "dies", how)
        assert result(await run(engine, "double", 1)) == 2
        visitor.let_go()
        assert result(await engine.wait(other.id, 30)) == "held"
    assert (job.state, job.reason, job.attempt) == (State.FAILED, Reason.ERROR, 1)
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("worker-process-died", True)
    assert says in job.error.message


async def test_a_process_death_counts_as_an_attempt_and_is_retried(engine: Engine) -> None:
    async with working(engine, ONE):
        job = await run(engine, "dies_once")
    assert (result(job), job.attempt) == (2, 2)


async def test_a_process_killed_from_outside(engine: Engine, rendezvous: Rendezvous) -> None:
    async with working(engine, ONE):
        job = await engine.submit(Submission("hold_and_retry", str(rendezvous.port)))
        ProcessHandle((await rendezvous.arrival()).pid).kill()
        ended = await engine.wait(job.id, 30)
    assert (result(ended), ended.attempt) == (2, 2)


async def test_a_process_killed_between_jobs_costs_no_attempt(engine: Engine) -> None:
    async with working(engine, ONE) as worker:
        for _ in range(5):
            [pid] = await pids_of(engine, worker)
            ProcessHandle(pid).kill()
            # submitted at once: before or after the death is noticed
            job = await run(engine, "pid")
            assert job.attempt == 1
            assert result(job) != pid


@pytest.mark.parametrize("kind", ["fills", "fills_async"])
async def test_a_job_over_its_memory_limit_fails_alone(engine: Engine, kind: str) -> None:
    async with working(engine, ONE):
        assert result(await run(engine, kind, 40)) == 40_000_000
        job = await run(engine, kind, 80)
        assert result(await run(engine, kind, 40)) == 40_000_000
        assert result(await run(engine, "fills_freely", 200)) == 200_000_000
    assert (job.state, job.reason) == (State.FAILED, Reason.ERROR)
    assert job.error is not None
    assert job.error.code == "out-of-memory"
    assert "64 MB" in job.error.message


async def test_a_process_that_ran_out_of_memory_is_replaced(engine: Engine) -> None:
    async with working(engine, ONE) as worker:
        [before] = await pids_of(engine, worker)
        await run(engine, "fills", 80)
        assert result(await run(engine, "pid")) != before


async def test_a_stopping_worker_lets_its_processes_finish(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, ONE):
        job = await engine.submit(Submission("hold", str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        asyncio.get_running_loop().call_later(0.1, visitor.let_go)
    assert result(await engine.get(job.id)) == "held"


async def test_processes_that_outlast_the_drain_are_killed_and_released(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, replace(ONE, drain_s=0.05)):
        job = await engine.submit(Submission("hold", str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
    await life.end()
    back = await engine.get(job.id)
    assert (back.state, back.reason, back.attempt) == (State.QUEUED, Reason.RELEASED, 0)
    assert await engine.store.workers.list_workers() == []


async def test_a_worker_declared_lost_kills_handlers_that_do_not_stop(
    engine: Engine, rendezvous: Rendezvous
) -> None:
    async with working(engine, replace(IMPATIENT, lease_s=0.2)) as worker:
        job = await engine.submit(Submission("hold_and_retry", str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
        assert await engine.store.workers.remove_worker(worker.id, None, engine.clock.now()) == 1
        ended = await engine.wait(job.id, 30)
        await life.end()
    assert (result(ended), ended.fence) == (2, 3)


# --- processes that cannot start


async def test_processes_that_die_at_import_fail_their_jobs_and_do_not_spin(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = tmp_path / "deaths"
    monkeypatch.setenv("PROCESS_APP_DIES", str(deaths))
    async with working(engine, TWO) as worker:
        jobs = await asyncio.gather(*(run(engine, "hold", 0) for _ in range(3)))
        count = len(deaths.read_text().splitlines())
        monkeypatch.delenv("PROCESS_APP_DIES")
        # The cause is fixed: the pool recovers without help.
        assert result(await run(engine, "double", 1)) == 2
        assert len(pool_of(worker).pids()) <= 2
    assert 3 <= count <= 6  # as many as there were jobs, with a pause after each
    for job in jobs:
        assert job.error is not None
        assert job.error.code == "worker-process-died"
        assert "exited with status 7 before it was ready" in job.error.message


async def test_an_import_error_is_reported(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCESS_APP_RAISES", "1")
    async with working(engine, ONE):
        job = await run(engine, "hold", 0)
    assert job.error is not None
    assert "RuntimeError: this module is not for you" in job.error.message


async def test_a_job_that_waits_for_a_process_can_be_cancelled(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCESS_APP_SLEEPS", "1")
    async with working(engine, ONE):
        job = await engine.submit(Submission("hold", "0"))
        claimed = await engine.wait_for_event(job, 1, 30)
        assert claimed is not None
        assert claimed.state is State.RUNNING
        await engine.cancel(job.id)
        ended = await engine.wait(job.id, 30)
    assert ended.state is State.CANCELLED
