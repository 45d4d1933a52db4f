"""Step results and events too large for a row are offloaded transparently."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App, Context, Fail
from coatcheck.engine.engine import Engine
from coatcheck.engine.fork import Fork
from coatcheck.errors import NotFound
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.payload import INLINE_BYTES, is_reference
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op
from coatcheck.store.base import Store
from coatcheck.worker.steps.effects import ReadPayload, send_request

from . import process_app
from .blob_engine import LARGE, ONE_PROCESS, Switch, bucket, clock, engine, files, folder, is_empty
from .conftest import working
from .job_control import ended, lose, result_of, run, submit, until

__all__ = ["bucket", "clock", "engine", "folder"]  # the fixtures

pytestmark = pytest.mark.anyio


class Shop:
    """Async and def handlers that run large steps, and fail until the shop is open."""

    def __init__(self, app: App) -> None:
        self.ran: Counter[str] = Counter()
        self.is_open = False

        @app.job(retries=0)
        async def looping(ctx: Context) -> list[int]:
            texts = await asyncio.gather(*(ctx.step(self.make, n, key=n) for n in range(3)))
            self._check()
            return [len(text) for text in texts]

        @app.job(retries=0)
        def threaded(ctx: Context) -> list[int]:
            texts = [ctx.step(self.make, n, key=n) for n in range(3)]
            self._check()
            return [len(text) for text in texts]

        @app.job(retries=0)
        async def asking(ctx: Context) -> list[Any]:
            sent = await ctx.wait_for("go")
            self._check()
            return [len(sent), await ctx.wait_for("more")]

        @app.job
        async def gathering(ctx: Context) -> int:
            handles = [await ctx.spawn("large") for _ in range(3)]
            return sum(map(len, await ctx.gather(*handles)))

        @app.job
        async def large(ctx: Context) -> str:
            return LARGE

    def make(self, number: int) -> str:
        self.ran[str(number)] += 1
        return LARGE + str(number)

    def _check(self) -> None:
        if not self.is_open:
            raise Fail("closed", "come back later")


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


SIZES = [len(LARGE) + 1] * 3


# I01: results of any size are recorded and replayed.
@pytest.mark.parametrize("kind", ["looping", "threaded"])
async def test_a_resumed_job_replays_its_large_steps(
    shop: Shop, engine: Engine, store: Store, folder: Path, kind: str
) -> None:
    async with working(engine):
        job = await run(engine, kind)
        assert job.state is State.FAILED
        steps = await store.jobs.list_steps(job.tenant, job.id)
        assert all(is_reference(step.result or "") for step in steps)
        assert len(files(folder)) == 3
        shop.is_open = True
        await engine.resume(job.id)
        assert await result_of(engine, job.id) == SIZES
    assert shop.ran == {"0": 1, "1": 1, "2": 1}
    receipt = await engine.delete(job.id)
    assert (receipt.deleted.steps, receipt.deleted.blobs, receipt.erased) == (3, 3, True)
    assert is_empty(folder)


@pytest.mark.parametrize("kind", ["looping", "threaded"])
async def test_a_fork_outlives_its_source(
    shop: Shop, engine: Engine, folder: Path, kind: str
) -> None:
    async with working(engine):
        job = await run(engine, kind)
    forked = (await engine.fork(Fork(job.id, 2))).job
    await engine.delete(job.id)
    assert len(files(folder)) == 2
    shop.is_open = True
    async with working(engine):
        assert await result_of(engine, forked.id) == SIZES
    assert shop.ran == {"0": 1, "1": 1, "2": 2}
    assert len(files(folder)) == 3
    await engine.delete(forked.id)
    assert is_empty(folder)


async def test_a_large_event_is_replayed(
    shop: Shop, engine: Engine, store: Store, folder: Path
) -> None:
    data = json.dumps(LARGE)
    async with working(engine):
        job_id = await submit(engine, "asking")
        await until(engine, job_id, State.WAITING)
        await engine.send(job_id, "go", data, key="once")
        await engine.send(job_id, "go", data, key="once")
        assert (await ended(engine, job_id)).state is State.FAILED
        [step] = await store.jobs.list_steps(DEFAULT_TENANT, job_id)
        [message] = await store.jobs.list_sent_events(DEFAULT_TENANT, job_id)
        assert step.id.op is Op.EVENT
        assert step.result == message.data
        assert is_reference(message.data)
        shop.is_open = True
        forked = (await engine.fork(Fork(job_id, 0))).job
        await engine.resume(job_id)
        await engine.send(job_id, "more", "2")
        assert await result_of(engine, job_id) == [len(LARGE), 2]
        await engine.send(forked.id, "go", "[]")
        await engine.send(forked.id, "more", "3")
        assert await result_of(engine, forked.id) == [0, 3]
        late = (await engine.fork(Fork(job_id, 1))).job
        await engine.delete(job_id)
        await engine.send(late.id, "more", "4")
        assert await result_of(engine, late.id) == [len(LARGE), 4]


async def test_gathered_results_may_be_large(shop: Shop, engine: Engine, store: Store) -> None:
    async with working(engine):
        job = await run(engine, "gathering")
    assert job.result == str(3 * len(LARGE))
    [*_, gathered] = await store.jobs.list_steps(job.tenant, job.id)
    assert gathered.id.op is Op.GATHER
    assert is_reference(gathered.result or "")


async def test_small_payloads_stay_inline(app: App, engine: Engine, folder: Path) -> None:
    def make() -> str:
        return "x" * (INLINE_BYTES - 2)

    @app.job
    async def small(ctx: Context) -> None:
        await ctx.step(make)

    async with working(engine):
        await run(engine, "small")
    assert is_empty(folder)


async def test_a_large_step_waits_while_the_blob_store_is_unavailable(
    shop: Shop, engine: Engine, bucket: Switch
) -> None:
    shop.is_open = bucket.away = True
    async with working(engine):
        job_id = await submit(engine, "threaded")
        still = await engine.wait(job_id, 0.5)
        assert still.state is State.RUNNING
        bucket.away = False
        assert await result_of(engine, job_id) == SIZES
    assert shop.ran == {"0": 1, "1": 1, "2": 1}


async def test_a_large_step_under_a_stale_lease_is_not_recorded(
    shop: Shop, engine: Engine, store: Store, bucket: Switch
) -> None:
    shop.is_open = bucket.away = True
    async with working(engine) as worker:
        job_id = await submit(engine, "threaded")
        await until(engine, job_id, State.RUNNING)
        await engine.wait(job_id, 0.2)
        await lose(engine, worker)
        assert (await ended(engine, job_id)).reason is Reason.LOST
        bucket.away = False
    assert shop.ran == {"0": 1}
    assert await store.jobs.list_steps(DEFAULT_TENANT, job_id) == []


class TestInProcesses:
    @pytest.fixture
    def app(self) -> App:
        return process_app.app

    async def test_a_handler_in_a_process_reads_its_large_steps_back(
        self, engine: Engine, store: Store
    ) -> None:
        async with working(engine, ONE_PROCESS):
            job_id = await submit(engine, "large_step", LARGE)
            await until(engine, job_id, State.WAITING)
            [step, _] = await store.jobs.list_steps(DEFAULT_TENANT, job_id)
            assert is_reference(step.result or "")
            await engine.send(job_id, "go", json.dumps(LARGE))
            assert await result_of(engine, job_id) == [len(LARGE), len(LARGE)]


async def test_a_handler_cannot_read_payloads_of_another_job(
    app: App, shop: Shop, engine: Engine, store: Store
) -> None:
    @app.job(retries=0)
    def curious(ctx: Context, reference: str) -> str:
        answer: str = ctx._run_effects(send_request(ReadPayload(reference)))
        return answer

    shop.is_open = True
    async with working(engine):
        other = await run(engine, "threaded")
        [step, *_] = await store.jobs.list_steps(other.tenant, other.id)
        job = await run(engine, "curious", step.result)
    assert job.state is State.FAILED
    assert job.error is not None
    assert "has no such payload" in job.error.message
    assert (await engine.step(other.id, 0)).result == step.result
    with pytest.raises(NotFound):
        await engine.step(other.id, 9)
