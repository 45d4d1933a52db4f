"""A retry is sent when it is due, on both stores, whichever process scheduled it.

The polls of the stores and of the dispatcher are out of reach here: a retry that was not woken for
never comes, and its test runs out of time.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from coatcheck import App, Context
from coatcheck.clock import Clock, SystemClock
from coatcheck.egress.outbound import OutboundClient
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks import dispatcher as module
from coatcheck.engine.webhooks.dispatcher import WebhookDispatcher, wait_for_event
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.model.webhook import JITTER, SCHEDULE_S, DeliveryState, WebhookDelivery
from coatcheck.model.webhook_format import FormatContext, FormattedWebhook
from coatcheck.store.base import Store
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.store.webhooks import DeliveryFilter, DeliveryResult
from coatcheck.surfaces.foreman.webhooks import SCHEDULE_S as FOREMAN_SCHEDULE_S
from tests.postgres.schemas import Schemas
from tests.store.template import migrated
from tests.webhooks.conftest import MovedClock, StoppedClock
from tests.webhooks.receiver import Call, Receiver, receiving

pytestmark = pytest.mark.anyio

LONG_S = 30.0
POLL_S = 3_600.0


class ForemanTimes:
    """Sends messages of its own on foreman's retry schedule."""

    surface = "foreman"
    schedule_s = FOREMAN_SCHEDULE_S

    async def word(
        self, job: Job, delivery: WebhookDelivery, told: FormatContext
    ) -> FormattedWebhook | None:
        return FormattedWebhook(b"{}", {})


app = App()


@app.job(surface=SurfaceOptions(webhook_format=ForemanTimes()))
async def echo(ctx: Context, value: int) -> int:
    return value


class HandTimer:
    """Sleeps until the event is set or the test says that the time is over."""

    def __init__(self) -> None:
        self._time_is_over = asyncio.Event()
        self._fell_asleep = asyncio.Condition()
        self._seconds: float | None = None

    async def __call__(self, event: asyncio.Event, seconds: float) -> None:
        if seconds <= 0:
            return
        async with self._fell_asleep:
            self._seconds = seconds
            self._fell_asleep.notify_all()
        waits = [asyncio.create_task(each.wait()) for each in (event, self._time_is_over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._seconds = None
            self._time_is_over.clear()
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def asleep(self, seconds: float) -> None:
        """Return when the dispatcher sleeps for so long."""
        async with asyncio.timeout(LONG_S), self._fell_asleep:
            await self._fell_asleep.wait_for(lambda: self._seconds == seconds)

    def end(self) -> None:
        """End the sleep."""
        self._time_is_over.set()


class Stores(NamedTuple):
    """Two stores on the same data, as in two processes."""

    ours: Store
    others: Store


@pytest.fixture(params=["sqlite", "postgres"])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    made: list[SQLiteStore] | list[PostgresStore]
    with contextlib.ExitStack() as cleanup:
        if request.param == "sqlite":
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="retry-"))
            path = migrated(Path(folder) / "jobs.db")
            made = [SQLiteStore(path, poll_s=POLL_S) for _ in range(2)]
        else:
            dsn, schemas = request.getfixturevalue("dsn"), request.getfixturevalue("schemas")
            assert isinstance(schemas, Schemas)
            schema = schemas.lend()
            cleanup.callback(schemas.take_back, schema)
            made = [
                PostgresStore(dsn, schema=schema, connections=3, poll_s=POLL_S) for _ in range(2)
            ]
        for store in made:
            await store.open()
        yield Stores(*made)
        for store in made:
            await store.close()


@pytest.fixture(params=[(SCHEDULE_S, "api"), (FOREMAN_SCHEDULE_S, "foreman")], ids=lambda p: p[1])
def schedule(request: pytest.FixtureRequest) -> tuple[tuple[float, ...], str]:
    found: tuple[tuple[float, ...], str] = request.param
    return found


@contextlib.asynccontextmanager
async def dispatching(
    store: Store, clock: Clock, timer: HandTimer | None = None
) -> AsyncIterator[Engine]:
    engine = Engine(store, app.kinds, clock, egress=EgressPolicy("127.0.0.1"))
    engine.dispatcher = WebhookDispatcher(
        store,
        engine.webhooks,
        OutboundClient(engine.egress),
        clock,
        engine.metrics,
        engine.payload_store,
        {"echo": ForemanTimes()},
        spread=lambda: 0.5,
        wait=timer or wait_for_event,
    )
    running = asyncio.create_task(engine.dispatcher.run())
    try:
        yield engine
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def end_a_job(engine: Engine, receiver: Receiver, surface: str) -> Job:
    asked = Submission("echo", "1", surface=surface, webhook=WebhookSpec(receiver.url))
    job = await engine.submit(asked)
    return await engine.cancel(job.id)


async def called(receiver: Receiver, times: int) -> None:
    async with asyncio.timeout(LONG_S):
        while len(receiver.calls) < times:
            receiver.called.clear()
            await receiver.called.wait()


async def only_delivery(engine: Engine, job: Job) -> WebhookDelivery:
    which = DeliveryFilter(DEFAULT_TENANT, job_id=job.id)
    [found] = await engine.webhooks.deliveries(which)
    return found


async def test_the_dispatcher_sleeps_until_each_retry_is_due(
    stores: Stores, schedule: tuple[tuple[float, ...], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NET_S", 10 * 86_400.0)
    waits_s, surface = schedule
    clock: MovedClock = StoppedClock()
    timer = HandTimer()
    async with (
        receiving(lambda _: 500) as receiver,
        dispatching(stores.ours, clock, timer) as engine,
    ):
        job = await end_a_job(engine, receiver, surface)
        for tried, wait_s in enumerate(waits_s[1:], 1):
            await called(receiver, tried)
            wait_ms = round(wait_s * 1000 * (1 + JITTER / 2))
            await timer.asleep(wait_ms / 1000)
            assert (await only_delivery(engine, job)).due_at == clock.now() + wait_ms
            assert len(receiver.calls) == tried
            clock.ahead_ms += wait_ms
            timer.end()
        await called(receiver, len(waits_s))


async def test_the_first_retry_comes_at_its_time_by_the_real_clock(
    stores: Stores, schedule: tuple[tuple[float, ...], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NET_S", POLL_S)
    waits_s, surface = schedule
    times: list[float] = []

    def answer(_: Call) -> int:
        times.append(time.monotonic())
        return 500 if len(times) == 1 else 204

    async with receiving(answer) as receiver, dispatching(stores.ours, SystemClock()) as engine:
        await end_a_job(engine, receiver, surface)
        await called(receiver, 2)
    assert times[1] - times[0] >= waits_s[1]


async def test_a_retry_that_another_process_scheduled_is_sent_when_it_is_due(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has claimed the delivery, schedules its retry, and dies."""
    monkeypatch.setattr(module, "NET_S", POLL_S)
    clock, timer = StoppedClock(), HandTimer()
    other = Engine(stores.others, app.kinds, clock, egress=EgressPolicy("127.0.0.1"))
    async with receiving() as receiver:
        job = await end_a_job(other, receiver, "api")
        [lane] = await stores.others.webhooks.list_delivery_lanes()
        now, lease_ms = clock.now(), 600_000
        [claimed] = await stores.others.webhooks.claim_deliveries(
            now, now + lease_ms, {lane.name: 1}
        )
        async with dispatching(stores.ours, clock, timer) as engine:
            await timer.asleep(lease_ms / 1000)
            delivery = claimed.delivery
            retry = DeliveryResult(
                delivery.key, delivery.attempts, DeliveryState.PENDING, now + 5_000, delivery.log
            )
            assert await stores.others.webhooks.record_deliveries([retry]) == [True]
            await timer.asleep(5)
            assert receiver.calls == []
            clock.ahead_ms += 5_000
            timer.end()
            await called(receiver, 1)
            assert (await only_delivery(engine, job)).attempts == 2
