"""Timeouts, cancellation, draining and being taken for lost: how a handler is made to stop."""

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
from .test_running_jobs import run

pytestmark = pytest.mark.anyio


class Gate:
    """Tells that a handler has begun, and holds it until it may go on; for any kind of thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()
        self._open = threading.Event()

    def say_begun(self) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)

    def say_stopped(self) -> None:
        self._loop.call_soon_threadsafe(self.stopped.set)

    def hold(self) -> None:
        """Block the thread, as a handler that ignores everything does."""
        self.say_begun()
        assert self._open.wait(30)

    async def hold_politely(self) -> None:
        """Wait so that the event loop goes on and a cancellation is seen."""
        self.say_begun()
        try:
            await asyncio.Event().wait()
        finally:
            self.say_stopped()

    def open(self) -> None:
        self._open.set()


@pytest.mark.parametrize("timeout", ["40ms", "120ms"], ids=["with a timer", "timed later"])
async def test_a_handler_that_runs_out_of_time_is_cancelled_and_tried_again(
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
    # On a busy machine an attempt may be out of time before its handler begins.
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


async def test_a_thread_that_ignores_its_timeout_is_left_behind_and_keeps_its_slot(
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


async def test_a_deadline_ends_the_job_whatever_attempts_are_left(app: App, engine: Engine) -> None:
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


async def test_a_job_that_succeeds_although_it_was_cancelled_has_succeeded(
    app: App, engine: Engine
) -> None:
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


async def test_a_cancelled_job_that_fails_is_not_tried_again(app: App, engine: Engine) -> None:
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
async def test_what_does_not_finish_in_the_drain_is_given_back_without_losing_an_attempt(
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
async def test_what_must_not_be_run_twice_is_not_given_back_once_it_has_begun(
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

    @app.job(on_lost="fail")
    def deaf(ctx: Context) -> None:
        gate.hold()

    async with working(engine, replace(SETTINGS, drain_s=0.05)):
        job = await engine.submit(Submission(kind))
        await gate.begun.wait()
    lost = await engine.get(job.id)
    assert (lost.state, lost.reason) == (State.FAILED, Reason.LOST)
    gate.open()


async def test_what_would_be_lost_with_its_worker_may_still_be_given_back_by_one_that_stops(
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


async def test_a_worker_taken_for_lost_writes_nothing_more_and_starts_anew(
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


async def test_a_blocked_loop_is_named_and_stops_neither_heartbeats_nor_threads(
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
