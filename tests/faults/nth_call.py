"""A store that fails on its Nth call, once or for a while, before or after the operation: the
worker recovers, and nothing is lost or repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from coatcheck.clock import SystemClock
from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.engine.webhooks import dispatcher
from coatcheck.errors import StoreUnavailable
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.testing.checker import (
    EffectLog,
    RunRecord,
    Submit,
    Violation,
    read_records,
    violations_of,
)
from coatcheck.worker import store_retry
from coatcheck.worker.worker import Worker
from tests.store_proxy import StoreProxy

from .app import app
from .place import HERE, LEASE_S, Place
from .stage import NO_PROCESSES, Stage, Tally
from .webhook_receiver import deliver_the_rest

# What opens and closes a store, and asks whether it is there.
NOT_WORK = frozenset({"open", "close", "migrate", "ping"})
KINDS = ("quick", "second_try", "threaded", "hopeless", "errand", "slow")
# To the end of the run, by the number of calls that an undisturbed one makes.
PERSISTENTLY = 0
# So short that a sweep of all calls takes seconds; the pauses' growth is tested elsewhere.
PAUSE_S = 0.002
# Rare enough that on a slow machine too most calls are those of the jobs.
SWEEP_S = 0.2
BEATING_LEASE_S = 0.6


class FailingStore(StoreProxy):
    """A store whose calls are counted, and some of which fail."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls = 0
        self.verbs: Counter[str] = Counter()
        self._failing = range(0)
        self._first_does = False

    def fail(self, first: int, times: int, *, first_does: bool) -> None:
        """Fail so many calls from this one on, where `first_does` after doing what was asked."""
        self.calls = 0
        self._failing = range(first, first + times)
        self._first_does = first_does

    def wrap(self, name: str, verb: Any) -> Any:
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def call(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            self.verbs[name] += 1
            if self.calls not in self._failing:
                return await verb(*arguments, **named)
            if self._first_does:
                await verb(*arguments, **named)
            raise StoreUnavailable("this call fails")

        return call


async def fail_on_every_call(place: Place, *, seed: int, times: int, first_does: bool) -> Tally:
    """Run the same few jobs again and again, failing one call later each time."""
    stage, began = Stage("store error on the Nth call", place, NO_PROCESSES, seed), time.monotonic()
    vars(store_retry).update(FIRST_PAUSE_S=PAUSE_S, LONGEST_PAUSE_S=5 * PAUSE_S)
    vars(dispatcher).update(RETRY_S=PAUSE_S)
    async with stage.open():
        store, owed = FailingStore(stage.store), set[tuple[str, str]]()
        engine = Engine(cast("Store", store), app.kinds, SystemClock(), egress=EgressPolicy(HERE))
        async with _doing_chores(engine):
            await _life(stage, engine, "undisturbed", owed)
            last, stage.tally.notes = store.calls, dict(store.verbs)
            for number in range(1, last + 1):
                count = times or max(6, last + 1 - number)
                store.fail(number, count, first_does=first_does)
                stage.tally.violations += await _life(stage, engine, f"call-{number}", owed)
                stage.tally.tried += 1
        await deliver_the_rest(stage.store, app.kinds)
        told = RunRecord([], [], deliveries=stage.hearing.heard, owed_deliveries=owed)
        stage.tally.violations += violations_of(told)
        stage.tally.heard = len(owed)
        stage.tally.seconds = time.monotonic() - began
        stage.tally.jobs = (last + 1) * (len(KINDS) + 2)
        print(stage.tally.show())
    return stage.tally


async def _life(
    stage: Stage, engine: Engine, tenant: str, owed: set[tuple[str, str]]
) -> list[Violation]:
    """Have a worker do a few jobs of one tenant on a store that fails, and check them; what a
    receiver is owed of them is added to what it was.
    """
    settings = Settings(concurrency=4, lease_s=BEATING_LEASE_S, drain_s=5, grace_s=5)
    jobs = [stage.new_job(kind, 5, tenant) for kind in (*KINDS, "slow")]
    errand = KINDS.index("errand")
    jobs[errand] = await stage.hearing.ask(jobs[errand])
    for job in jobs:
        await _until_done(lambda job=job: engine.store.jobs.submit(job, engine.clock.now()))  # type: ignore[misc]  # bound now
    async with working(Worker(engine, settings)):
        told = (tenant, jobs[errand].id, "go", "true")
        await _until_done(lambda: engine.store.jobs.send_event(*told, engine.clock.now()))
        with contextlib.suppress(StoreUnavailable):
            await engine.store.jobs.cancel(tenant, jobs[-1].id, engine.clock.now())
        for job in jobs:
            ended = await stage.engine.wait(job.id, 60, tenant)
            assert ended.finished_at is not None, (tenant, ended)
        with contextlib.suppress(StoreUnavailable):
            await engine.dispatcher.deliver_due()
    submits = [Submit(job.id, tenant=tenant) for job in jobs]
    records = await read_records(stage.store, submits)
    effects = EffectLog(stage.place.folder / "effects").read()
    owed |= stage.hearing.owed(records)
    return violations_of(RunRecord(submits, records, effects=effects))


async def _until_done(verb: Callable[[], Awaitable[object]]) -> None:
    while True:
        with contextlib.suppress(StoreUnavailable):
            await verb()
            return


@contextlib.asynccontextmanager
async def _doing_chores(engine: Engine) -> AsyncIterator[None]:
    """Sweep and deliver, as every process does beside its own work."""
    sweeper = Sweeper(engine.store, engine.clock, lease_s=LEASE_S, sweep_s=SWEEP_S)
    chores = [asyncio.create_task(each) for each in (sweeper.run(), engine.dispatcher.run())]
    try:
        yield
    finally:
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)


@contextlib.asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running
