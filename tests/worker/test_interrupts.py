"""Interrupts: timeout, cancel, drain and lost lease."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.state import Reason, State
from coatcheck.worker.attempts.interrupts import Interrupted

from .conftest import SETTINGS, working
from .gate import Gate
from .job_control import run

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("timeout", ["40ms", "120ms"], ids=["with a timer", "timed later"])
async def test_a_handler_that_times_out_is_cancelled_and_retried(
    app: App, engine: Engine, timeout: str
) -> None:
    stopped = []

    @app.job(timeout=timeout, retries=1)
    async def endless(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.cancelled)

    async with working(engine):
        job = await run(engine, "endless")
    # On a busy machine, an attempt may time out before its handler begins.
    assert stopped in ([True], [True, True])
    assert (job.state, job.reason, job.attempt) == (State.FAILED, Reason.TIMEOUT, 2)
    assert job.error is not None
    assert job.error.code == "timeout"


async def test_a_thread_stops_at_its_next_call_of_ctx(app: App, engine: Engine) -> None:
    ended_by: list[type[BaseException]] = []

    @app.job(timeout="50ms", retries=0)
    def endless(ctx: Context) -> None:
        try:
            while True:
                ctx.progress(1)
        except Exception:  # noqa: BLE001 - the point of the test
            pytest.fail("an interruption must not look like an ordinary error")
        except BaseException as error:
            ended_by.append(type(error))
            raise

    async with working(engine):
        job = await run(engine, "endless")
    assert ended_by == [Interrupted]
    assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)


async def test_a_thread_that_ignores_its_timeout_is_abandoned_and_keeps_its_slot(
    app: App, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    @app.job(timeout="50ms", retries=0)
    def deaf(ctx: Context) -> str:
        gate.hold()
        return "too late"

    @app.job
    async def quick(ctx: Context) -> None: ...

    async with working(engine, replace(SETTINGS, concurrency=1, grace_s=0.05)):
        job = await run(engine, "deaf")
        assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)
        assert "handler ignored interrupt: abandoned" in caplog.text
        waiting = await engine.submit(Submission("quick"))
        assert (await engine.wait(waiting.id, 0.2)).state is State.QUEUED
        gate.open()
        assert (await engine.wait(waiting.id, 30)).state is State.SUCCEEDED
    assert (await engine.get(job.id)).state is State.FAILED


async def test_a_deadline_fails_the_job_even_with_attempts_left(app: App, engine: Engine) -> None:
    @app.job(timeout="1h", retries=10)
    async def endless(ctx: Context) -> None:
        await asyncio.Event().wait()

    async with working(engine):
        job = await run(engine, "endless", deadline_s=0.1)
    assert (job.state, job.reason, job.attempt) == (State.FAILED, Reason.TIMEOUT, 1)


async def test_cancelling_a_running_job_stops_its_handler(app: App, engine: Engine) -> None:
    gate = Gate()

    @app.job
    async def polite(ctx: Context) -> None:
        await gate.hold_politely()

    async with working(engine):
        job = await engine.submit(Submission("polite"))
        await gate.begun.wait()
        assert (await engine.cancel(job.id)).state is State.RUNNING
        ended = await engine.wait(job.id, 30)
        await gate.stopped.wait()
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCELLED)


async def test_a_success_after_a_cancel_request_stands(app: App, engine: Engine) -> None:
    gate = Gate()

    @app.job
    def stubborn(ctx: Context) -> str:
        gate.hold()
        return "done anyway"

    async with working(engine):
        job = await engine.submit(Submission("stubborn"))
        await gate.begun.wait()
        await engine.cancel(job.id)
        gate.open()
        ended = await engine.wait(job.id, 30)
    assert (ended.state, ended.result) == (State.SUCCEEDED, '"done anyway"')


async def test_a_cancelled_job_is_not_retried(app: App, engine: Engine) -> None:
    gate = Gate()

    @app.job(retries=5)
    def stubborn(ctx: Context) -> None:
        gate.hold()
        raise ValueError("broken")

    async with working(engine):
        job = await engine.submit(Submission("stubborn"))
        await gate.begun.wait()
        await engine.cancel(job.id)
        gate.open()
        ended = await engine.wait(job.id, 30)
    assert (ended.state, ended.attempt) == (State.CANCELLED, 1)


async def test_a_stopping_worker_lets_its_jobs_finish(app: App, engine: Engine) -> None:
    gate = Gate()

    @app.job
    def slow(ctx: Context) -> int:
        gate.hold()
        return 1

    async with working(engine):
        job = await engine.submit(Submission("slow"))
        await gate.begun.wait()
        threading.Timer(0.1, gate.open).start()
    assert (await engine.get(job.id)).state is State.SUCCEEDED
    assert await engine.store.workers.list_workers() == []


@pytest.mark.parametrize("kind", ["polite", "deaf"])
async def test_jobs_that_outlast_the_drain_are_released_without_using_an_attempt(
    app: App, engine: Engine, kind: str
) -> None:
    gate = Gate()

    @app.job
    async def polite(ctx: Context) -> None:
        await gate.hold_politely()

    @app.job
    def deaf(ctx: Context) -> None:
        gate.hold()

    async with working(engine, replace(SETTINGS, drain_s=0.05)):
        job = await engine.submit(Submission(kind))
        await gate.begun.wait()
    back = await engine.get(job.id)
    assert (back.state, back.reason, back.attempt) == (State.QUEUED, Reason.RELEASED, 0)
    assert await engine.store.workers.list_workers() == []
    gate.open()


@pytest.mark.parametrize("kind", ["polite", "deaf"])
async def test_a_started_job_with_on_drain_fail_is_not_released(
    app: App, engine: Engine, kind: str
) -> None:
    gate = Gate()

    @app.job(on_lost="fail")
    async def polite(ctx: Context) -> None:
        try:
            await gate.hold_politely()
        finally:
            assert ctx.cancelled
            assert ctx.continues_elsewhere
            with pytest.warns(DeprecationWarning, match="continues_elsewhere"):
                assert ctx.goes_on_elsewhere

    @app.job(on_lost="fail")
    def deaf(ctx: Context) -> None:
        gate.hold()

    async with working(engine, replace(SETTINGS, drain_s=0.05)):
        job = await engine.submit(Submission(kind))
        await gate.begun.wait()
    lost = await engine.get(job.id)
    assert (lost.state, lost.reason) == (State.FAILED, Reason.LOST)
    gate.open()


async def test_a_job_with_on_lost_fail_is_released_by_a_draining_worker(
    app: App, engine: Engine
) -> None:
    gate = Gate()

    @app.job(retries=0, on_lost="fail", on_drain="release")
    async def polite(ctx: Context) -> None:
        await gate.hold_politely()

    async with working(engine, replace(SETTINGS, drain_s=0.05)):
        job = await engine.submit(Submission("polite"))
        await gate.begun.wait()
    back = await engine.get(job.id)
    assert (back.state, back.reason, back.attempt) == (State.QUEUED, Reason.RELEASED, 0)


async def test_a_worker_declared_lost_writes_nothing_and_registers_anew(
    app: App, engine: Engine
) -> None:
    first = Gate()
    attempts = []

    @app.job
    async def slow(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            await first.hold_politely()
        return ctx.attempt

    async with working(engine, replace(SETTINGS, lease_s=0.2)) as worker:
        job = await engine.submit(Submission("slow"))
        await first.begun.wait()
        former = worker.id
        assert await engine.store.workers.remove_worker(former, None, engine.clock.now()) == 1
        ended = await engine.wait(job.id, 30)
        assert worker.id != former
        await first.stopped.wait()
    assert attempts == [1, 2]
    assert (ended.state, ended.result, ended.fence) == (State.SUCCEEDED, "2", 3)
    ends = [event for event in await engine.events(job.id) if "succeeded" in event.data]
    assert len(ends) == 1


async def test_a_blocked_loop_is_logged_and_stops_neither_heartbeats_nor_threads(
    app: App, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    @app.job
    async def rude(ctx: Context) -> None:
        gate.hold()

    @app.job
    def quick(ctx: Context) -> None: ...

    named = asyncio.Event()

    def notice(record: logging.LogRecord) -> bool:
        if "blocks the event loop" in record.getMessage():
            named.set()
        return True

    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(notice)
    async with working(engine, replace(SETTINGS, lease_s=0.3)):
        job = await engine.submit(Submission("rude"))
        await gate.begun.wait()
        (before,) = await engine.store.workers.list_workers()
        assert (await run(engine, "quick")).state is State.SUCCEEDED
        await named.wait()
        (after,) = await engine.store.workers.list_workers()
        assert after.info.beats > before.info.beats
        gate.open()
        assert (await engine.wait(job.id, 30)).state is State.SUCCEEDED
    (line,) = [
        record for record in caplog.records if "blocks the event loop" in record.getMessage()
    ]
    assert (line.__dict__["kind"], line.__dict__["job_id"]) == ("rude", job.id)
    assert (
        "test_interrupting.py" in line.__dict__["where"] or "threading.py" in line.__dict__["where"]
    )
