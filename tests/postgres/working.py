"""An app whose jobs write down each start, and a worker for it in the test's own process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.model.event import EventType
from coatcheck.model.job import DEFAULT_TENANT, JobInsert
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.testing.checker import RunRecord, Submit, check, read_records
from coatcheck.worker.steps.context import Context
from coatcheck.worker.worker import Worker

SETTINGS = Settings(concurrency=8, lease_s=60, drain_s=5, grace_s=5)
# Nothing here takes this long; a test that waits longer has failed.
PATIENCE_S = 60.0


class Workshop:
    """Kinds of jobs, what was started of them, and a gate that holds some of them."""

    def __init__(self) -> None:
        self.app = App()
        self.gate = threading.Event()
        self.starts: Counter[tuple[str, int]] = Counter()
        self._started = threading.Semaphore(0)

        @self.app.job
        async def quick(ctx: Context, n: int) -> int:
            self._note(ctx)
            return n * 2

        @self.app.job
        def held(ctx: Context, n: int) -> int:
            self._note(ctx)
            assert self.gate.wait(PATIENCE_S)
            return n * 2

    def _note(self, ctx: Context) -> None:
        self.starts[ctx.job_id, ctx.attempt] += 1
        self._started.release()

    async def started(self, count: int = 1) -> None:
        """Wait for so many more starts."""
        for _ in range(count):
            assert await asyncio.to_thread(self._started.acquire, timeout=PATIENCE_S)

    def new_job(self, engine: Engine, kind: str, n: int) -> JobInsert:
        """Make a job with an id of its own, not submitted yet."""
        now = engine.clock.now()
        return prepare(Submission(kind, json.dumps(n)), self.app.kinds, engine.new_id(), now)


@contextlib.asynccontextmanager
async def working(engine: Engine, settings: Settings = SETTINGS) -> AsyncIterator[Worker]:
    """Run a worker for as long as the block lasts, then let it drain."""
    worker = Worker(engine, settings)
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(worker.run(stop, ready.set))
    becoming_ready = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([running, becoming_ready], return_when="FIRST_COMPLETED")
        yield worker
    finally:
        stop.set()
        becoming_ready.cancel()
        await running


async def check_that_each_succeeded_once(engine: Engine, jobs: Sequence[JobInsert]) -> None:
    """Wait for every job, and check the promises on what became of them."""
    for new in jobs:
        job = await engine.wait(new.id, PATIENCE_S, new.tenant)
        assert job.state is State.SUCCEEDED, job
        assert job.result is not None
        assert json.loads(job.result) == json.loads(new.input) * 2
    submits = [Submit(new.id, tenant=new.tenant) for new in jobs]
    records = await read_records(engine.store, submits)
    mine = {new.id for new in jobs}
    check(RunRecord(submits, [record for record in records if record.id in mine]))


async def states_of(store: Store, job_id: str, tenant: str = DEFAULT_TENANT) -> list[str]:
    """Return the states a job's log tells of, in order; its entries are numbered without gaps."""
    events = await store.jobs.list_events(tenant, job_id, 0, 1000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [json.loads(event.data)["state"] for event in events if event.type is EventType.STATE]
