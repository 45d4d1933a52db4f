"""Prefetched jobs: they start in order, or are released unharmed.

Most of these tests have a worker that always prefetches, and a clock that stands still unless it is
moved, so that no job is released for having waited too long before a test wants it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import StoreUnavailable
from coatcheck.model.job import Job
from coatcheck.model.state import Reason, State
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import ClaimResult, JobFilter, Settlement, Store
from coatcheck.worker.slots.prefetch import LONGEST_WAIT_S, MOST_AHEAD, Prefetch
from coatcheck.worker.worker import Worker
from tests.store_proxy import StoreProxy

from .conftest import SETTINGS, working
from .gate import Gate

pytestmark = pytest.mark.anyio

ONE_SLOT = replace(SETTINGS, concurrency=1)
TWO_SLOTS = replace(SETTINGS, concurrency=2)


class Clock(SystemClock):
    """The system's clock, but the monotonic one stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.later_ms = 0

    def now(self) -> int:
        return super().now() + self.later_ms

    def monotonic(self) -> float:
        return self.seconds


class Eager(Prefetch):
    """Always prefetches; optionally even while prefetched jobs still wait."""

    def __init__(self, *, tops_up: bool = False) -> None:
        super().__init__()
        self._tops_up = tops_up
        self.given_back = 0

    def record_release(self) -> None:
        self.given_back += 1

    def limit(self, *, free: int, moving: int, waiting: int, now: float) -> int:
        if self.given_back:
            return free
        if waiting and not self._tops_up:
            return 0
        return max(0, free + 8 - waiting)


class Watched(StoreProxy):
    """The real store. It records how many jobs each claim asked for, and can be made
    unavailable.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.limits: list[int] = []
        self.stop_before_answer: asyncio.Event | None = None
        self.lose_next = False  # the response of the next claim
        self.claimed_after_loss = asyncio.Event()
        self._lost = False
        self.down = False  # for settles
        self.refused = asyncio.Event()
        self.remove_before_answer = False
        self._registered = 0
        self._registered_again = asyncio.Event()

    async def claim(
        self, worker_id: str, kinds: Sequence[str], limit: int, now: int, *more: Any
    ) -> ClaimResult:
        self.limits.append(limit)
        claimed = await self._store.workers.claim(worker_id, kinds, limit, now, *more)
        if self.stop_before_answer is not None:
            self.stop_before_answer.set()
            # iterations of the loop: the worker is notified within three or four
            for _ in range(20):
                await asyncio.sleep(0)
        if self.remove_before_answer:
            self.remove_before_answer = False
            await self._store.workers.remove_worker(worker_id, None, now)
            await self._registered_again.wait()
        if self._lost and claimed.claims:
            self.claimed_after_loss.set()
        if self.lose_next and claimed.claims:
            self.lose_next, self._lost = False, True
            raise StoreUnavailable("the answer was lost")
        return claimed

    async def register_worker(self, worker: WorkerInfo) -> None:
        await self._store.workers.register_worker(worker)
        self._registered += 1
        if self._registered == 2:
            self._registered_again.set()

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        if self.down:
            self.refused.set()
            raise StoreUnavailable("switched off")
        return await self._store.workers.settle(settlements, now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watched(store: Store) -> Watched:
    return Watched(store)


@pytest.fixture
def engine(app: App, watched: Watched, clock: Clock) -> Engine:
    return Engine(watched, app.kinds, clock)


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture
def started(app: App, gate: Gate) -> list[tuple[str, int]]:
    """Declare two kinds, one of which is held at the gate; collect the started attempts of the
    other.
    """
    starts: list[tuple[str, int]] = []

    @app.job
    def held(ctx: Context) -> None:
        gate.hold()

    @app.job
    async def quick(ctx: Context) -> None:
        starts.append((ctx.job_id, ctx.attempt))

    return starts


async def submit(engine: Engine, *kinds: str) -> list[Job]:
    return (await engine.submit_batch([Submission(kind) for kind in kinds])).jobs


async def running(engine: Engine) -> int:
    """Count the claimed jobs in the store."""
    which = JobFilter("default", state=State.RUNNING, limit=200)
    return len(await engine.list_jobs(which))


async def all_succeed(engine: Engine, jobs: Sequence[Job]) -> list[Job]:
    finished = [await engine.wait(job.id, 30) for job in jobs]
    assert [job.state for job in finished] == [State.SUCCEEDED] * len(jobs)
    return finished


# --- how much is claimed


async def test_short_jobs_are_prefetched(app: App, engine: Engine, watched: Watched) -> None:
    at_once, most = 0, 0

    @app.job
    async def quick(ctx: Context) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    jobs = await submit(engine, *["quick"] * 1000)
    async with working(engine, TWO_SLOTS):
        await all_succeed(engine, jobs)
    assert watched.limits[0] == 2
    assert 2 < max(watched.limits) <= 2 + MOST_AHEAD
    assert most == 2, "never more at once than slots"


async def test_long_jobs_are_not_prefetched(
    app: App, engine: Engine, watched: Watched, clock: Clock
) -> None:
    @app.job
    async def slow(ctx: Context) -> None:
        clock.seconds += 1

    jobs = await submit(engine, *["slow"] * 200)
    async with working(engine, TWO_SLOTS):
        await all_succeed(engine, jobs)
    assert max(watched.limits) <= 2


async def test_jobs_that_fail_if_lost_are_not_prefetched(
    app: App, engine: Engine, watched: Watched
) -> None:
    @app.job(retries=0)
    async def quick(ctx: Context) -> None: ...

    jobs = await submit(engine, *["quick"] * 500)
    async with working(engine, TWO_SLOTS):
        finished = await all_succeed(engine, jobs)
    assert max(watched.limits) <= 2
    assert {job.fence for job in finished} == {1}


@pytest.mark.usefixtures("started")
async def test_a_new_worker_does_not_prefetch(engine: Engine, gate: Gate) -> None:
    await submit(engine, *["held"] * 10)
    async with working(engine, ONE_SLOT):
        await gate.begun.wait()
        assert await running(engine) == 1
        gate.open()


# With few jobs, one worker must not claim what another could start at once.
async def test_two_idle_workers_share_a_few_short_jobs(
    app: App, engine: Engine, clock: Clock
) -> None:
    here = asyncio.get_running_loop()
    begun, all_begun = 0, asyncio.Event()
    go_on = threading.Event()

    def note() -> None:
        nonlocal begun
        begun += 1
        if begun == 4:
            all_begun.set()

    @app.job
    async def quick(ctx: Context) -> None: ...

    @app.job
    def held(ctx: Context) -> None:
        here.call_soon_threadsafe(note)
        assert go_on.wait(30)

    async with working(engine, TWO_SLOTS), working(engine, TWO_SLOTS):
        await all_succeed(engine, await submit(engine, *["quick"] * 1000))
        clock.seconds += 1
        jobs = await submit(engine, *["held"] * 4)
        await all_begun.wait()
        go_on.set()
        await all_succeed(engine, jobs)


# --- who starts


async def test_prefetched_jobs_start_in_order_on_every_runner(app: App, engine: Engine) -> None:
    lock, order = threading.Lock(), list[str]()
    at_once, most = 0, 0

    def enter(ctx: Context) -> None:
        nonlocal at_once, most
        with lock:
            order.append(ctx.job_id)
            at_once += 1
            most = max(most, at_once)

    def leave() -> None:
        nonlocal at_once
        with lock:
            at_once -= 1

    @app.job
    async def on_loop(ctx: Context) -> None:
        enter(ctx)
        await asyncio.sleep(0)
        leave()

    @app.job
    def in_thread(ctx: Context) -> None:
        enter(ctx)
        leave()

    jobs = await submit(engine, *["on_loop", "in_thread", "in_thread"] * 30)
    async with working(engine, ONE_SLOT, Eager()):
        await all_succeed(engine, jobs)
    assert order == [job.id for job in jobs]
    assert most == 1


@pytest.mark.parametrize("kind", ["endless", "endless_in_a_thread"])
async def test_a_job_started_by_a_runner_has_a_timer(
    app: App, engine: Engine, kind: str, gate: Gate
) -> None:
    @app.job
    async def quick(ctx: Context) -> None: ...

    @app.job
    def quick_in_a_thread(ctx: Context) -> None: ...

    @app.job(timeout="50ms")
    async def endless(ctx: Context) -> None:
        await gate.hold_politely()

    @app.job(timeout="50ms")
    def endless_in_a_thread(ctx: Context) -> None:
        try:
            while True:
                ctx.progress(1)
        finally:
            gate.say_stopped()

    before = "quick" if kind == "endless" else "quick_in_a_thread"
    job = (await submit(engine, before, kind))[1]
    async with working(engine, ONE_SLOT, Eager()):
        async with asyncio.timeout(30):
            await gate.stopped.wait()
        await engine.cancel(job.id)
        assert (await engine.wait(job.id, 30)).fence == 1


async def test_the_timer_of_a_job_starts_with_its_handler(app: App, engine: Engine) -> None:
    @app.job(timeout="800ms", retries=0)
    async def endless(ctx: Context) -> None:
        await asyncio.Event().wait()

    @app.job(timeout="400ms")
    async def patient(ctx: Context) -> None: ...

    # Claimed together. The first times out, and only then is there a slot for the second.
    first, second = await submit(engine, "endless", "patient")
    async with working(engine, ONE_SLOT, Eager()):
        assert (await engine.wait(first.id, 30)).reason is Reason.TIMEOUT
        finished = await engine.wait(second.id, 30)
    assert (finished.state, finished.attempt, finished.fence) == (State.SUCCEEDED, 1, 1)


async def test_a_prefetched_job_can_miss_its_deadline(
    app: App, engine: Engine, clock: Clock, gate: Gate, started: list[tuple[str, int]]
) -> None:
    @app.job
    async def endless(ctx: Context) -> None:
        await asyncio.Event().wait()

    jobs = (
        await engine.submit_batch([Submission("held"), Submission("endless", deadline_s=60)])
    ).jobs
    async with working(engine, ONE_SLOT, Eager()):
        await gate.begun.wait()
        assert await running(engine) == 2
        clock.later_ms = 61_000
        gate.open()
        finished = await engine.wait(jobs[1].id, 30)
    assert (finished.state, finished.reason) == (State.FAILED, Reason.TIMEOUT)


# --- what never starts


async def test_a_prefetched_job_that_waits_too_long_is_released(
    engine: Engine, clock: Clock, gate: Gate, started: list[tuple[str, int]]
) -> None:
    prefetch = Eager()
    long, *short = await submit(engine, "held", "quick", "quick", "quick")
    # Patient with running jobs, but none runs once the gate is open.
    patient = replace(ONE_SLOT, drain_s=3600)
    async with asyncio.timeout(60), working(engine, patient, prefetch):
        await gate.begun.wait()
        assert await running(engine) == 4
        async with working(engine):
            clock.seconds += LONGEST_WAIT_S
            finished = await all_succeed(engine, short)
        assert prefetch.given_back == 1
        assert (await engine.get(long.id)).state is State.RUNNING
        gate.open()
        await all_succeed(engine, [long])
    assert [(job.attempt, job.fence) for job in finished] == [(1, 2)] * 3
    assert sorted(started) == [(job.id, 1) for job in short], "started twice"


@pytest.mark.parametrize("terms", [{"on_lost": "fail"}, {"retries": 0}])
async def test_a_job_that_fails_if_lost_never_waits_for_a_slot(
    app: App, engine: Engine, gate: Gate, started: list[tuple[str, int]], terms: dict[str, Any]
) -> None:
    @app.job(**terms)
    async def fragile(ctx: Context) -> None:
        started.append((ctx.job_id, ctx.attempt))

    jobs = await submit(engine, "held", "quick", "fragile", "quick")
    long, before, *given_back = jobs
    async with working(engine, ONE_SLOT, Eager()):
        await gate.begun.wait()
        async with working(engine):
            finished = await all_succeed(engine, given_back)
        assert [(job.attempt, job.fence) for job in finished] == [(1, 2)] * 2
        assert (await engine.get(before.id)).state is State.RUNNING, "that one waits"
        gate.open()
        await all_succeed(engine, [long, before])
    assert sorted(started) == [(job.id, 1) for job in jobs[1:]]


async def test_a_prefetched_job_is_cancelled_at_once(
    engine: Engine, gate: Gate, started: list[tuple[str, int]]
) -> None:
    long, victim, other = await submit(engine, "held", "quick", "quick")
    async with working(engine, ONE_SLOT, Eager()):
        await gate.begun.wait()
        assert (await engine.cancel(victim.id)).state is State.RUNNING, "it was claimed"
        finished = await engine.wait(victim.id, 30)
        assert (finished.state, finished.reason) == (State.CANCELLED, Reason.CANCELLED)
        gate.open()
        await all_succeed(engine, [long, other])
    assert started == [(other.id, 1)]


async def test_a_stopping_worker_releases_prefetched_jobs_before_it_drains(
    engine: Engine, gate: Gate, started: list[tuple[str, int]]
) -> None:
    long, *short = await submit(engine, "held", "quick", "quick")
    stop = asyncio.Event()
    patient = replace(ONE_SLOT, drain_s=3600)
    stopping = asyncio.create_task(Worker(engine, patient, prefetch=Eager()).run(stop))
    await gate.begun.wait()
    assert await running(engine) == 3
    stop.set()
    async with working(engine):
        finished = await all_succeed(engine, short)
        assert (await engine.get(long.id)).state is State.RUNNING
        assert not stopping.done()
        gate.open()
        await all_succeed(engine, [long])
        await stopping
    assert [(job.attempt, job.fence) for job in finished] == [(1, 2)] * 2
    assert sorted(started) == [(job.id, 1) for job in short]


async def test_a_claim_that_returns_after_the_stop_starts_nothing(
    engine: Engine, watched: Watched, started: list[tuple[str, int]]
) -> None:
    stop = asyncio.Event()
    watched.stop_before_answer = stop
    jobs = await submit(engine, "quick", "quick")
    await Worker(engine, ONE_SLOT, prefetch=Eager()).run(stop)
    assert started == []
    for job in jobs:
        back = await engine.get(job.id)
        assert (back.state, back.reason, back.attempt) == (State.QUEUED, Reason.RELEASED, 0)


async def test_a_worker_declared_lost_drops_prefetched_jobs(
    app: App, engine: Engine, gate: Gate, started: list[tuple[str, int]]
) -> None:
    first = Gate()

    @app.job
    async def polite(ctx: Context) -> None:
        if ctx.attempt == 1:
            await first.hold_politely()

    jobs = await submit(engine, "polite", "quick", "quick")
    async with working(engine, replace(ONE_SLOT, lease_s=0.2), Eager()) as worker:
        await first.begun.wait()
        assert await running(engine) == 3
        assert await engine.store.workers.remove_worker(worker.id, None, engine.clock.now()) == 3
        await first.stopped.wait()
        finished = await all_succeed(engine, jobs)
    assert [job.attempt for job in finished] == [2, 2, 2]
    assert started == [(job.id, 2) for job in jobs[1:]]
    assert (await engine.store.maintenance.read_counters()).get("stale_writes", 0) == 0


async def test_a_claim_that_returns_after_the_worker_was_declared_lost_starts_nothing(
    engine: Engine, watched: Watched, started: list[tuple[str, int]]
) -> None:
    watched.remove_before_answer = True
    jobs = await submit(engine, "quick", "quick")
    async with working(engine, replace(ONE_SLOT, lease_s=0.2), Eager()):
        await all_succeed(engine, jobs)
    assert started == [(job.id, 2) for job in jobs]


async def test_prefetched_jobs_are_not_released_as_unknown(
    engine: Engine, watched: Watched, gate: Gate, started: list[tuple[str, int]]
) -> None:
    long, *short = await submit(engine, "held", "quick", "quick")
    async with working(engine, ONE_SLOT, Eager(tops_up=True)):
        await gate.begun.wait()
        watched.lose_next = True
        [lost] = await submit(engine, "quick")
        await watched.claimed_after_loss.wait()
        gate.open()
        finished = await all_succeed(engine, [long, *short, lost])
    assert [job.fence for job in finished] == [1, 1, 1, 2], "only the unanswered one is given back"
    assert sorted(started) == [(job.id, 1) for job in (*short, lost)]


async def test_prefetched_jobs_run_while_the_store_is_unavailable(
    engine: Engine, watched: Watched, gate: Gate, started: list[tuple[str, int]]
) -> None:
    jobs = await submit(engine, "held", "quick", "quick")
    async with working(engine, ONE_SLOT, Eager()):
        await gate.begun.wait()
        watched.down = True
        gate.open()
        await watched.refused.wait()
        watched.down = False
        finished = await all_succeed(engine, jobs)
    assert [(job.attempt, job.fence) for job in finished] == [(1, 1)] * 3
    assert sorted(started) == [(job.id, 1) for job in jobs[1:]]
