"""A store that fails on its Nth call, once or for a while, before or after it has done what was
asked: the worker gets through it, and nothing is lost or done twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, cast

from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.errors import StoreUnavailable
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.testing.checker import EffectLog, Run, Submit, Violation, read_records, violations_of
from coatcheck.worker import outage
from coatcheck.worker.worker import Worker

from .app import app
from .place import Place
from .stage import NO_PROCESSES, Stage, Tally

VERBS = frozenset(
    {"submit", "submit_batch", "get", "get_many", "events", "cancel", "register_worker", "beat"}
    | {"claim", "held_by", "report", "settle", "remove_worker", "count", "sweep", "workers"}
)
KINDS = ("quick", "second_try", "threaded", "hopeless", "slow")
# So short that a sweep of all calls takes seconds; the pauses' growth is tested elsewhere.
PAUSE_S = 0.002


class FailingStore:
    """A store whose calls are counted, and some of which fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls = 0
        self._failing = range(0)
        self._first_does = False

    def fail(self, first: int, times: int, *, first_does: bool) -> None:
        """Fail so many calls from this one on, where `first_does` after doing what was asked."""
        self.calls = 0
        self._failing = range(first, first + times)
        self._first_does = first_does

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in VERBS:
            return verb

        async def call(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls not in self._failing:
                return await verb(*arguments)
            if self._first_does:
                await verb(*arguments)
            raise StoreUnavailable("this call fails")

        return call


async def fail_on_every_call(place: Place, *, seed: int, times: int, first_does: bool) -> Tally:
    """Run the same few jobs again and again, failing one call later each time."""
    stage, began = Stage("store error on the Nth call", place, NO_PROCESSES, seed), time.monotonic()
    vars(outage).update(FIRST_PAUSE_S=PAUSE_S, LONGEST_PAUSE_S=5 * PAUSE_S)
    async with stage.open():
        store = FailingStore(stage.store)
        await _life(stage, store, "undisturbed")
        last = store.calls
        for number in range(1, last + 1):
            store.fail(number, times, first_does=first_does)
            stage.tally.violations += await _life(stage, store, f"call-{number}")
            stage.tally.tried += 1
        stage.tally.seconds = time.monotonic() - began
        stage.tally.jobs = (last + 1) * (len(KINDS) + 1)
        print(stage.tally.show())
    return stage.tally


async def _life(stage: Stage, store: FailingStore, tenant: str) -> list[Violation]:
    """Have a worker do a few jobs of one tenant on a store that fails, and check them."""
    engine = Engine(cast("Store", store), app.kinds, SystemClock())
    settings = Settings(concurrency=4, lease_s=0.15, drain_s=5, grace_s=5)
    jobs = [stage.new_job(kind, 5, tenant) for kind in (*KINDS, "slow")]
    submits = []
    for job in jobs:
        while True:
            try:
                await engine.store.submit(job, engine.clock.now())
            except StoreUnavailable:
                continue
            submits.append(Submit(job.id, tenant=tenant))
            break
    async with working(Worker(engine, settings)):
        with contextlib.suppress(StoreUnavailable):
            await engine.store.cancel(tenant, jobs[-1].id, engine.clock.now())
        for job in jobs:
            ended = await stage.engine.wait(job.id, 20, tenant)
            assert ended.finished_at is not None, (tenant, ended)
    effects = EffectLog(stage.place.folder / "effects").read()
    records = await read_records(stage.store, submits)
    return violations_of(Run(submits, records, effects=effects))


@contextlib.asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running
