"""A process that runs handlers for somebody who waits on the line, without a worker."""

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

from .meeting import Life, Meeting
from .process_app import app

pytestmark = pytest.mark.anyio

LONG_S = 60.0
KINDS = [kind for kind in app.kinds.values() if kind.isolation == "process"]


def job(kind: str, input_: object = None) -> JobInsert:
    return new_job(kind, input=json.dumps(input_))


async def until_ready(at_hand: WarmProcess) -> None:
    """Have the process started, and wait until it can be given something to do."""
    async with asyncio.timeout(LONG_S):
        if at_hand._warm:  # it is about to end
            await at_hand._all_gone.wait()
        assert await at_hand.run(job("double", 1), LONG_S) is None
        await at_hand._ready.wait()


@pytest.fixture
async def at_hand() -> AsyncIterator[WarmProcess]:
    made = WarmProcess(KINDS, Settings(), SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def test_it_tells_how_a_job_ended(at_hand: WarmProcess) -> None:
    await until_ready(at_hand)
    before = SystemClock().now()
    ended = await at_hand.run(job("double", 21), LONG_S)
    assert ended is not None
    assert (ended.outcome, ended.report) == (Succeeded("42"), None)
    assert before <= ended.began_at <= SystemClock().now()
    failed = await at_hand.run(job("raises", "fail"), LONG_S)
    assert failed is not None
    assert isinstance(failed.outcome, GaveUp)
    assert (failed.outcome.error.code, failed.outcome.error.message) == ("no-good", "give up")


async def test_small_files_come_with_the_end(at_hand: WarmProcess) -> None:
    await until_ready(at_hand)
    submitted = job("leave_at_end", "a picture")
    ended = await at_hand.run(submitted, LONG_S)
    assert ended is not None
    assert ended.report is not None
    [file] = ended.report.files
    assert (file.artifact.name, file.artifact.size) == ("note.txt", len("a picture"))


@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_one_that_dies_has_done_nothing_and_is_started_again(
    at_hand: WarmProcess, how: str
) -> None:
    await until_ready(at_hand)
    assert await at_hand.run(job("dies", how), LONG_S) is None
    await until_ready(at_hand)
    assert _result(await at_hand.run(job("double", 2), LONG_S)) == "4"


async def test_what_takes_too_long_is_ended(at_hand: WarmProcess, meeting: Meeting) -> None:
    await until_ready(at_hand)
    [process] = at_hand._warm.values()
    life = Life(process.pid)
    assert await at_hand.run(job("stuck", meeting.port), 0.1) is None
    await life.end()
    await until_ready(at_hand)
    assert _result(await at_hand.run(job("double", 3), LONG_S)) == "6"


async def test_one_thing_at_a_time(at_hand: WarmProcess, meeting: Meeting) -> None:
    await until_ready(at_hand)
    first = asyncio.create_task(at_hand.run(job("hold", meeting.port), LONG_S))
    visitor = await meeting.arrival()
    assert await at_hand.run(job("double", 4), LONG_S) is None
    visitor.let_go()
    assert _result(await first) == '"held"'
    assert _result(await at_hand.run(job("double", 4), LONG_S)) == "8"


@pytest.mark.parametrize("kind", ["asks_for_a_step", "asks_for_a_step_and_fails"])
async def test_what_only_a_worker_has_is_not_there(at_hand: WarmProcess, kind: str) -> None:
    await until_ready(at_hand)
    assert await at_hand.run(job(kind), LONG_S) is None
    assert _result(await at_hand.run(job("double", 5), LONG_S)) == "10", "it is not ended for that"


async def test_one_that_cannot_start_is_left_alone_for_a_while(
    at_hand: WarmProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PROCESS_APP_RAISES", "1")
    assert await at_hand.run(job("double", 1), LONG_S) is None
    async with asyncio.timeout(LONG_S):
        await at_hand._all_gone.wait()
    assert "this module is not for you" in str(caplog.records[-1].__dict__["why"])
    assert await at_hand.run(job("double", 1), LONG_S) is None
    assert not at_hand._warm


async def test_after_so_many_jobs_there_is_another() -> None:
    at_hand = WarmProcess(KINDS, Settings(process_jobs=1), SystemClock())
    try:
        await until_ready(at_hand)
        first = _result(await at_hand.run(job("pid"), LONG_S))
        await until_ready(at_hand)
        assert _result(await at_hand.run(job("pid"), LONG_S)) != first
    finally:
        await at_hand.close()


async def test_closing_ends_it() -> None:
    at_hand = WarmProcess(KINDS, Settings(), SystemClock())
    await until_ready(at_hand)
    [process] = at_hand._warm.values()
    assert process is not None
    await at_hand.close()
    assert process.describe_exit() == "exited with status 0"
    assert await at_hand.run(job("double", 1), LONG_S) is None
    assert not at_hand._warm


def _result(ended: FinishedJob | None) -> str:
    assert ended is not None
    assert isinstance(ended.outcome, Succeeded)
    return ended.outcome.result
