"""A real worker with processes: no process outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.state import Reason, State
from tests.cli.proc_files import children_of
from tests.cli.processes import Running, running

from . import process_app
from .conftest import working
from .process_pool import ONE, result
from .rendezvous import ProcessHandle, Rendezvous

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def app() -> App:
    return process_app.app


@contextmanager
def a_worker(folder: Path, **settings: str) -> Iterator[Running]:
    """Run `coatcheck worker` on the database of the test."""
    given = {
        "PYTHONPATH": str(ROOT),
        "COATCHECK_DATABASE": f"sqlite:///{folder}/jobs.db",
        "COATCHECK_PROCESSES": "2",
        "COATCHECK_LOG_FORMAT": "json",
        # Nothing waits for a lease here: the kernel reports that a worker is dead.
        "COATCHECK_LEASE_S": "600",
        **settings,
    }
    with running("worker", "tests.worker.process_app:app", folder=folder, **given) as worker:
        worker.stderr.wait_for("worker started")
        yield worker


@contextlib.asynccontextmanager
async def sweeping(engine: Engine) -> AsyncIterator[None]:
    sweeper = Sweeper(engine.store, SystemClock(), lease_s=600, sweep_s=0.05)
    task = asyncio.create_task(sweeper.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_processes_die_with_a_killed_worker_and_its_jobs_are_retried(
    engine: Engine, rendezvous: Rendezvous, tmp_path: Path
) -> None:
    with a_worker(tmp_path) as worker:
        job = await engine.submit(Submission("hold_and_retry", str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
        others = [ProcessHandle(pid) for pid in children_of(worker.pid)]
        assert len(others) == 3  # two processes and the guard
        worker.process.kill()
        for each in (life, *others):
            await each.end()
    async with sweeping(engine), working(engine, ONE):
        ended = await engine.wait(job.id, 30)
    assert (result(ended), ended.attempt) == (2, 2)


async def test_programs_of_handlers_die_with_a_killed_worker(
    engine: Engine, rendezvous: Rendezvous, tmp_path: Path
) -> None:
    with a_worker(tmp_path) as worker:
        job = await engine.submit(Submission("with_grandchild", str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        lives = [ProcessHandle(visitor.pid), ProcessHandle(int(visitor.words))]
        worker.process.kill()
        for life in lives:
            await life.end()
    async with sweeping(engine):
        ended = await engine.wait(job.id, 30)
    assert (ended.state, ended.reason) == (State.FAILED, Reason.LOST)


@pytest.mark.parametrize("kind", ["hold", "stuck"])
async def test_processes_die_with_their_worker_without_the_guard_too(
    engine: Engine, rendezvous: Rendezvous, tmp_path: Path, kind: str
) -> None:
    with a_worker(tmp_path) as worker:
        await engine.submit(Submission(kind, str(rendezvous.port)))
        visitor = await rendezvous.arrival()
        life = ProcessHandle(visitor.pid)
        [guard] = [
            ProcessHandle(pid)
            for pid, line in children_of(worker.pid).items()
            if "guard.py" in line[-1]
        ]
        guard.kill()
        await guard.end()
        worker.process.kill()
        await life.end()


async def test_a_terminated_worker_releases_its_jobs_and_leaves_no_process(
    engine: Engine, rendezvous: Rendezvous, tmp_path: Path
) -> None:
    with a_worker(tmp_path, COATCHECK_DRAIN_S="0.1") as worker:
        job = await engine.submit(Submission("hold", str(rendezvous.port)))
        life = ProcessHandle((await rendezvous.arrival()).pid)
        others = [ProcessHandle(pid) for pid in children_of(worker.pid)]
        assert await asyncio.to_thread(worker.stop) == 0
        for each in (life, *others):
            await each.end()
    back = await engine.get(job.id)
    assert (back.state, back.reason, back.attempt) == (State.QUEUED, Reason.RELEASED, 0)


async def test_output_of_a_handler_appears_on_its_worker(engine: Engine, tmp_path: Path) -> None:
    with a_worker(tmp_path) as worker:
        job = await engine.submit(Submission("prints", '"hello there"', correlation_id="c-17"))
        assert (await engine.wait(job.id, 30)).state is State.SUCCEEDED
        worker.stdout.wait_for("hello there")
        worker.stderr.wait_for("hello there")
        line = json.loads(worker.stderr.wait_for("logged in a process"))
        failed = await engine.submit(Submission("raises", '"secret words"', correlation_id="c-18"))
        await engine.wait(failed.id, 30)
        raised = json.loads(worker.stderr.wait_for("handler failed"))
        worker.stop()
        lines = worker.stderr.until_end()
    assert (line["level"], line["correlation_id"]) == ("warning", "c-17")
    assert (raised["job_id"], raised["correlation_id"]) == (failed.id, "c-18")
    assert not [text for text in lines if "secret words" in text]


async def test_a_handler_in_a_script_cannot_run_in_a_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio\n"
        "from coatcheck import App, Context\n"
        "from coatcheck.cli.server.runtime import worker_process\n"
        "from coatcheck.settings import Settings\n"
        "app = App()\n"
        "@app.job(isolation='process')\n"
        "def here(ctx: Context) -> None: ...\n"
        f"asyncio.run(worker_process(app, Settings(database='sqlite:///{tmp_path}/s.db')))\n"
    )
    python = sys.executable
    done = await asyncio.create_subprocess_exec(python, str(script), stderr=asyncio.subprocess.PIPE)
    _, errors = await done.communicate()
    assert "is in the script that was started" in errors.decode()
