"""A warm process that runs handlers inside a request, without a worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from coatcheck.clock import SystemClock
from coatcheck.model.job import JobInsert
from coatcheck.model.outcome import GaveUp, Succeeded
from coatcheck.settings import Settings
from coatcheck.store.base import FinishedJob
from coatcheck.testing.conformance.arrange import new_job
from coatcheck.worker.processes.warm_process import WarmProcess

from .process_app import app
from .rendezvous import ProcessHandle, Rendezvous

pytestmark = pytest.mark.anyio

LONG_S = 60.0
KINDS = [kind for kind in app.kinds.values() if kind.isolation == "process"]


def job(kind: str, input_: object = None) -> JobInsert:
    return new_job(kind, input=json.dumps(input_))


async def until_ready(warm_process: WarmProcess) -> None:
    """Start the process, and wait until it is ready."""
    async with asyncio.timeout(LONG_S):
        if warm_process._warm:  # it is about to end
            await warm_process._all_gone.wait()
        assert await warm_process.run(job("double", 1), LONG_S) is None
        await warm_process._ready.wait()


@pytest.fixture
async def warm_process() -> AsyncIterator[WarmProcess]:
    made = WarmProcess(KINDS, Settings(), SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def test_a_warm_process_returns_the_outcome(warm_process: WarmProcess) -> None:
    await until_ready(warm_process)
    before = SystemClock().now()
    ended = await warm_process.run(job("double", 21), LONG_S)
    assert ended is not None
    assert (ended.outcome, ended.report) == (Succeeded("42"), None)
    assert before <= ended.began_at <= SystemClock().now()
    failed = await warm_process.run(job("raises", "fail"), LONG_S)
    assert failed is not None
    assert isinstance(failed.outcome, GaveUp)
    assert (failed.outcome.error.code, failed.outcome.error.message) == ("no-good", "give up")


async def test_small_artifacts_are_returned_with_the_outcome(warm_process: WarmProcess) -> None:
    await until_ready(warm_process)
    submitted = job("leave_at_end", "a picture")
    ended = await warm_process.run(submitted, LONG_S)
    assert ended is not None
    assert ended.report is not None
    [file] = ended.report.files
    assert (file.artifact.name, file.artifact.size) == ("note.txt", len("a picture"))


@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_a_warm_process_that_dies_returns_none_and_is_restarted(
    warm_process: WarmProcess, how: str
) -> None:
    await until_ready(warm_process)
    assert await warm_process.run(job("dies", how), LONG_S) is None
    await until_ready(warm_process)
    assert _result(await warm_process.run(job("double", 2), LONG_S)) == "4"


async def test_an_attempt_that_takes_too_long_is_killed(
    warm_process: WarmProcess, rendezvous: Rendezvous
) -> None:
    await until_ready(warm_process)
    [process] = warm_process._warm.values()
    life = ProcessHandle(process.pid)
    assert await warm_process.run(job("stuck", rendezvous.port), 0.1) is None
    await life.end()
    await until_ready(warm_process)
    assert _result(await warm_process.run(job("double", 3), LONG_S)) == "6"


async def test_a_warm_process_runs_one_attempt_at_a_time(
    warm_process: WarmProcess, rendezvous: Rendezvous
) -> None:
    await until_ready(warm_process)
    first = asyncio.create_task(warm_process.run(job("hold", rendezvous.port), LONG_S))
    visitor = await rendezvous.arrival()
    assert await warm_process.run(job("double", 4), LONG_S) is None
    visitor.let_go()
    assert _result(await first) == '"held"'
    assert _result(await warm_process.run(job("double", 4), LONG_S)) == "8"


@pytest.mark.parametrize("kind", ["asks_for_a_step", "asks_for_a_step_and_fails"])
async def test_a_request_that_needs_a_worker_returns_none(
    warm_process: WarmProcess, kind: str
) -> None:
    await until_ready(warm_process)
    assert await warm_process.run(job(kind), LONG_S) is None
    assert _result(await warm_process.run(job("double", 5), LONG_S)) == "10", (
        "it is not ended for that"
    )


async def test_a_failed_start_is_not_repeated_for_a_while(
    warm_process: WarmProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PROCESS_APP_RAISES", "1")
    assert await warm_process.run(job("double", 1), LONG_S) is None
    async with asyncio.timeout(LONG_S):
        await warm_process._all_gone.wait()
    assert "this module is not for you" in str(caplog.records[-1].__dict__["why"])
    assert await warm_process.run(job("double", 1), LONG_S) is None
    assert not warm_process._warm


async def test_a_warm_process_is_replaced_after_its_job_limit() -> None:
    warm_process = WarmProcess(KINDS, Settings(process_jobs=1), SystemClock())
    try:
        await until_ready(warm_process)
        first = _result(await warm_process.run(job("pid"), LONG_S))
        await until_ready(warm_process)
        assert _result(await warm_process.run(job("pid"), LONG_S)) != first
    finally:
        await warm_process.close()


async def test_close_stops_the_process() -> None:
    warm_process = WarmProcess(KINDS, Settings(), SystemClock())
    await until_ready(warm_process)
    [process] = warm_process._warm.values()
    assert process is not None
    await warm_process.close()
    assert process.describe_exit() == "exited with status 0"
    assert await warm_process.run(job("double", 1), LONG_S) is None
    assert not warm_process._warm


def _result(ended: FinishedJob | None) -> str:
    assert ended is not None
    assert isinstance(ended.outcome, Succeeded)
    return ended.outcome.result
