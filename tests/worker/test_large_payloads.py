"""Inputs and results too large for a row are offloaded transparently."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.fork import Fork
from coatcheck.engine.payloads.payloads import RESERVED_MS
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import BlobStoreUnavailable
from coatcheck.model.outcome import Released
from coatcheck.model.payload import INLINE_BYTES, is_reference
from coatcheck.model.state import Reason, State
from coatcheck.store.base import JobFilter, Store

from . import process_app
from .blob_engine import (
    LARGE,
    ONE_PROCESS,
    Clock,
    Switch,
    bucket,
    clock,
    engine,
    files,
    folder,
    is_empty,
)
from .conftest import working
from .job_control import ended, result_of, run, submit, until

__all__ = ["bucket", "clock", "engine", "folder"]  # the fixtures

pytestmark = pytest.mark.anyio


def remove_one(folder: Path) -> None:
    files(folder)[0].unlink()


@pytest.mark.parametrize("isolation", ["async", "thread"])
async def test_a_large_input_and_result_go_through_the_blob_store(
    app: App, engine: Engine, store: Store, folder: Path, isolation: str
) -> None:
    if isolation == "async":

        @app.job(name="turn")
        async def turn_async(ctx: Context, text: str) -> str:
            return text[::-1]
    else:

        @app.job(name="turn")
        def turn(ctx: Context, text: str) -> str:
            return text[::-1]

    async with working(engine):
        job = await run(engine, "turn", LARGE + "!")

    assert json.loads(job.result or "") == "!" + LARGE
    kept = (await store.jobs.get(job.tenant, job.id)).result
    assert kept is not None
    assert is_reference(kept)
    assert len(files(folder)) == 2
    deleted = (await engine.delete(job.id)).deleted
    assert (deleted.payloads, deleted.blobs) == (2, 2)
    assert is_empty(folder)


class TestInProcesses:
    @pytest.fixture
    def app(self) -> App:
        return process_app.app

    async def test_a_large_payload_goes_to_a_process_and_comes_back(self, engine: Engine) -> None:
        async with working(engine, ONE_PROCESS):
            job = await run(engine, "turn_around", LARGE + "!")
        assert json.loads(job.result or "") == "!" + LARGE

    async def test_jobs_spawned_in_a_process_with_large_payloads(
        self, engine: Engine, folder: Path
    ) -> None:
        async with working(engine, ONE_PROCESS):
            job = await run(engine, "spawn_large", "12345" + LARGE + "!12")
        assert json.loads(job.result or "") == ["21!", "21!"]
        assert len(files(folder)) == 6  # the gathered results are a large payload, too

    async def test_a_job_fails_if_its_offloaded_input_is_gone(
        self, engine: Engine, folder: Path
    ) -> None:
        job = await engine.submit(Submission("turn_around", json.dumps(LARGE)))
        remove_one(folder)
        async with working(engine, ONE_PROCESS):
            ended = await engine.wait(job.id, 30)
        assert ended.error is not None
        assert (ended.state, ended.error.code) == (State.FAILED, "input-gone")


async def test_small_payloads_stay_inline(app: App, engine: Engine, folder: Path) -> None:
    @app.job
    async def turn(ctx: Context, text: str) -> str:
        return text[::-1]

    async with working(engine):
        await run(engine, "turn", "x" * (INLINE_BYTES - 2))
    assert is_empty(folder)


async def test_large_inputs_of_a_batch_are_offloaded(
    app: App, engine: Engine, folder: Path
) -> None:
    @app.job
    async def length(ctx: Context, text: str) -> int:
        return len(text)

    texts = ["x" * (INLINE_BYTES if number % 50 == 0 else 10) for number in range(150)]
    taken = await engine.submit_batch([Submission("length", json.dumps(text)) for text in texts])
    assert len(files(folder)) == 3
    async with working(engine):
        ended = [await engine.wait(job.id, 30) for job in taken.jobs]
    assert [job.result for job in ended] == [str(len(text)) for text in texts]


async def test_concurrent_duplicates_leave_one_blob(app: App, engine: Engine, folder: Path) -> None:
    @app.job
    async def length(ctx: Context, text: str) -> int:
        return len(text)

    asked = Submission("length", json.dumps(LARGE))
    once = IdempotencyKey("key", "fingerprint")
    submitted = await asyncio.gather(*(engine.submit_idempotent(asked, once) for _ in range(8)))
    assert len({each.jobs[0].id for each in submitted}) == 1
    assert len(files(folder)) == 1
    again = await engine.submit_batch([asked], once)
    assert again.replayed
    assert len(files(folder)) == 1


async def test_a_job_spawns_others_with_large_inputs_and_gathers_large_results(
    app: App, engine: Engine, folder: Path
) -> None:
    @app.job
    async def turn(ctx: Context, text: str) -> str:
        return text[::-1]

    @app.job
    async def both(ctx: Context) -> bool:
        handles = [await ctx.spawn("turn", LARGE + end) for end in "ab"]
        return bool(await ctx.gather(*handles) == ["a" + LARGE, "b" + LARGE])

    async with working(engine):
        job = await run(engine, "both")
    assert job.result == "true"
    assert len(files(folder)) == 5  # the gathered results are a large payload, too
    for child in await engine.list_jobs(JobFilter(job.tenant, kind="turn")):
        assert (await engine.delete(child.id)).deleted.blobs == 2
    assert (await engine.delete(job.id)).deleted.blobs == 1
    assert is_empty(folder)


async def test_gather_waits_while_the_blob_store_is_unavailable(
    app: App, engine: Engine, bucket: Switch
) -> None:
    @app.job
    async def large(ctx: Context) -> str:
        return LARGE

    @app.job
    async def gathers(ctx: Context) -> int:
        child = await ctx.spawn("large")
        await ctx.wait_for("go")
        [result] = await ctx.gather(child)
        return len(result)

    async with working(engine):
        job_id = await submit(engine, "gathers")
        waiting = await until(engine, job_id, State.WAITING)
        [child] = await engine.list_jobs(JobFilter(waiting.tenant, kind="large"))
        await ended(engine, child.id)
        bucket.away = True
        await engine.send(job_id, "go")
        assert (await engine.wait(job_id, 0.2)).state is State.RUNNING
        bucket.away = False
        assert await result_of(engine, job_id) == len(LARGE)


async def test_a_fork_has_a_copy_of_a_large_input(app: App, engine: Engine, folder: Path) -> None:
    @app.job
    async def length(ctx: Context, text: str) -> int:
        return len(text)

    async with working(engine):
        job = await run(engine, "length", LARGE)
        forked = await engine.fork(Fork(job.id, 0), IdempotencyKey("key", "fingerprint"))
        again = await engine.fork(Fork(job.id, 0), IdempotencyKey("key", "fingerprint"))
        assert (forked.replayed, again.replayed, again.job.id) == (False, True, forked.job.id)
        assert len(files(folder)) == 2
        await engine.delete(job.id)
        assert await result_of(engine, forked.job.id) == len(LARGE)
    assert len(files(folder)) == 1
    await engine.delete(forked.job.id)
    assert is_empty(folder)


async def test_a_resume_that_changes_nothing_shows_the_result(app: App, engine: Engine) -> None:
    @app.job
    async def large(ctx: Context) -> str:
        return LARGE

    async with working(engine):
        job = await run(engine, "large")
    assert (await engine.resume(job.id)).job == await engine.get(job.id) == job


@pytest.mark.parametrize("isolation", ["async", "thread"])
async def test_a_job_fails_if_its_offloaded_input_is_gone(
    app: App, engine: Engine, folder: Path, isolation: str
) -> None:
    if isolation == "async":

        @app.job(name="length")
        async def length_async(ctx: Context, text: str) -> int:
            return len(text)
    else:

        @app.job(name="length")
        def length(ctx: Context, text: str) -> int:
            return len(text)

    job = await engine.submit(Submission("length", json.dumps(LARGE)))
    remove_one(folder)
    async with working(engine):
        ended = await engine.wait(job.id, 30)
    assert ended.error is not None
    assert (ended.state, ended.error.code) == (State.FAILED, "input-gone")


async def test_nothing_is_lost_while_the_blob_store_is_unavailable(
    app: App, engine: Engine, bucket: Switch, store: Store
) -> None:
    ready, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def turn(ctx: Context, text: str) -> str:
        loop.call_soon_threadsafe(ready.set)
        await asyncio.to_thread(go_on.wait)
        return text[::-1]

    bucket.away = True
    with pytest.raises(BlobStoreUnavailable):
        await engine.submit(Submission("turn", json.dumps(LARGE)))
    bucket.away = False
    job = await engine.submit(Submission("turn", json.dumps(LARGE)))
    bucket.away = True
    async with working(engine):
        released = None
        while released is None or released.reason is not Reason.RELEASED:
            released = await engine.wait_for_event(job, released.last_event if released else 1, 30)
            assert released is not None
        assert (released.attempt, released.state) == (0, State.QUEUED)
        bucket.away = False
        await ready.wait()
        bucket.away = True
        go_on.set()
        still = await engine.wait(job.id, 0.2)
        assert still.state is State.RUNNING
        bucket.away = False
        ended = await engine.wait(job.id, 30)
    assert (ended.state, ended.attempt) == (State.SUCCEEDED, 1)
    assert json.loads(ended.result or "") == LARGE


async def test_a_job_is_visible_even_if_its_result_is_unreadable(
    app: App, engine: Engine, bucket: Switch
) -> None:
    @app.job
    async def turn(ctx: Context, text: str) -> str:
        return text[::-1]

    async with working(engine):
        job = await run(engine, "turn", LARGE)
    bucket.away = True
    shown = await engine.get(job.id)
    assert shown.state is State.SUCCEEDED
    assert shown.result is not None
    assert is_reference(shown.result)


async def test_unreferenced_blobs_are_swept(
    app: App, engine: Engine, folder: Path, clock: Clock
) -> None:
    @app.job
    async def length(ctx: Context, text: str) -> int:
        return len(text)

    job = await engine.submit(Submission("length", json.dumps(LARGE)))
    await engine.payload_store.put(job.tenant, engine.new_id(), b"nobody names it", 100)
    assert len(files(folder)) == 2
    assert await engine.payload_store.sweep() == 0
    clock.ahead_ms = RESERVED_MS + 1
    assert await engine.payload_store.sweep() == 1
    assert len(files(folder)) == 1
    async with working(engine):
        assert (await engine.wait(job.id, 30)).result == str(len(LARGE))


async def test_a_remote_worker_gets_the_offloaded_input(
    app: App, engine: Engine, folder: Path
) -> None:
    @app.job
    async def length(ctx: Context, text: str) -> int:
        return len(text)

    async def here() -> bool:
        return False

    job = await engine.submit(Submission("length", json.dumps(LARGE)))
    [claim] = await engine.remote_workers.claim(["length"], 5, 0, "elsewhere", here)
    assert json.loads(claim.input) == LARGE
    await engine.remote_workers.settle(claim.lease, Released())
    remove_one(folder)
    assert await engine.remote_workers.claim(["length"], 5, 0, "elsewhere", here) == []
    ended = await engine.get(job.id)
    assert ended.error is not None
    assert ended.error.code == "input-gone"
