"""Schedules through the engine: changing them, firing them, and what an app declares."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.schedules import scheduler
from coatcheck.errors import (
    Conflict,
    InvalidPayload,
    NotFound,
    StoreUnavailable,
    UnknownKind,
)
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.model.schedule import CatchUp, Overlap, Schedule, ScheduleDefinition, Timing
from coatcheck.model.state import State
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import JobFilter, Topic
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.template import migrated
from tests.store_proxy import StoreProxy

from .hand_clock import HandClock

pytestmark = pytest.mark.anyio

MINUTE = 60_000
HOUR = 60 * MINUTE
START = int(datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp() * 1000)
HOURLY = ScheduleDefinition("hourly", "report", Timing(every_ms=HOUR), input='"2030"')
LONG = 30.0


def declare() -> App:
    app = App()

    @app.job(queue="reports", retries=4)
    async def report(ctx: Context, month: str) -> str:
        return month

    @app.job
    async def tidy(ctx: Context) -> None: ...

    return app


@pytest.fixture
def clock() -> HandClock:
    return HandClock(START)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(migrated(tmp_path / "jobs.db"), poll_s=60)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def engine(store: SQLiteStore, clock: HandClock) -> Engine:
    return Engine(store, declare().kinds, clock)


async def jobs_of(engine: Engine, name: str = "hourly") -> list[Job]:
    """Return a schedule's jobs, oldest tick first."""
    which = JobFilter(DEFAULT_TENANT, limit=10_000, labels=(("schedule", name),))
    return sorted(await engine.list_jobs(which), key=lambda job: job.run_at)


async def ticks_of(engine: Engine, name: str = "hourly") -> list[int]:
    return [job.run_at for job in await jobs_of(engine, name)]


# --- firing


async def test_a_tick_becomes_a_job_with_all_that_the_schedule_says(
    engine: Engine, clock: HandClock
) -> None:
    definition = replace(
        HOURLY, queue="night", priority=7, labels='{"a":"b"}', deadline_s=60.0, max_attempts=2
    )
    await engine.schedules.put(definition)
    assert await engine.scheduler.fire_due() == START + HOUR
    assert await jobs_of(engine) == []

    clock.milliseconds += HOUR + 5
    assert await engine.scheduler.fire_due() == START + 2 * HOUR
    [job] = await jobs_of(engine)
    assert (job.kind, job.queue, job.priority, job.state) == ("report", "night", 7, State.QUEUED)
    assert job.labels == {"a": "b", "schedule": "hourly"}
    assert (job.run_at, job.created_at) == (START + HOUR, clock.now())
    assert (job.terms.max_attempts, job.terms.deadline_at) == (2, clock.now() + 60_000)
    stands = await engine.schedules.get("hourly")
    assert (stands.last_at, stands.last_job) == (START + HOUR, job.id)


async def test_each_tick_becomes_one_job_however_many_engines_there_are(
    store: SQLiteStore, clock: HandClock
) -> None:
    engines = [Engine(store, declare().kinds, clock) for _ in range(4)]
    await engines[0].schedules.put(HOURLY)
    await engines[0].schedules.put(
        ScheduleDefinition("nightly", "tidy", Timing(cron="30 2 * * *", timezone="Europe/Berlin"))
    )
    for _ in range(48):
        clock.milliseconds += HOUR
        await asyncio.gather(*(engine.scheduler.fire_due() for engine in engines))
    assert await ticks_of(engines[0]) == [START + n * HOUR for n in range(1, 49)]
    nights = [
        datetime.fromtimestamp(tick / 1000, UTC).isoformat()
        for tick in await ticks_of(engines[0], "nightly")
    ]
    # The clock goes forward in the first night: at three it is, and only once.
    assert nights == ["2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00"]


async def test_a_crowd_of_schedules_is_fired_to_the_last(engine: Engine, clock: HandClock) -> None:
    names = [f"s{number:03d}" for number in range(2 * scheduler.AT_ONCE + 7)]
    for name in names:
        await engine.schedules.put(replace(HOURLY, name=name))
    clock.milliseconds += HOUR
    assert await engine.scheduler.fire_due() == START + 2 * HOUR
    jobs = await engine.list_jobs(JobFilter(DEFAULT_TENANT, limit=1_000))
    assert sorted(job.labels["schedule"] for job in jobs) == names


async def test_after_a_long_absence_the_policy_decides(engine: Engine, clock: HandClock) -> None:
    for policy in CatchUp:
        await engine.schedules.put(replace(HOURLY, name=policy, catch_up=policy))
    clock.milliseconds += 250 * HOUR + 10 * MINUTE
    assert await engine.scheduler.fire_due() == START + 251 * HOUR
    assert await ticks_of(engine, "latest") == [START + 250 * HOUR]
    assert await ticks_of(engine, "skip") == []
    assert await ticks_of(engine, "all") == [START + n * HOUR for n in range(1, 251)]
    clock.milliseconds += 50 * MINUTE
    await engine.scheduler.fire_due()
    for policy in CatchUp:
        assert (await ticks_of(engine, policy))[-1] == START + 251 * HOUR


async def test_a_tick_is_left_out_while_the_job_before_runs(
    engine: Engine, clock: HandClock
) -> None:
    await engine.schedules.put(replace(HOURLY, overlap=Overlap.SKIP))
    for _ in range(3):
        clock.milliseconds += HOUR
        await engine.scheduler.fire_due()
    [job] = await jobs_of(engine)
    assert job.run_at == START + HOUR
    await engine.cancel(job.id)
    clock.milliseconds += HOUR
    await engine.scheduler.fire_due()
    assert await ticks_of(engine) == [START + HOUR, START + 4 * HOUR]


async def test_only_those_who_have_its_kind_fire_a_schedule(
    engine: Engine, store: SQLiteStore, clock: HandClock
) -> None:
    await engine.schedules.put(HOURLY)
    other = App()

    @other.job
    async def something_else(ctx: Context) -> None: ...

    clock.milliseconds += HOUR
    assert await Engine(store, other.kinds, clock).scheduler.fire_due() is None
    assert await jobs_of(engine) == []
    await engine.scheduler.fire_due()
    assert len(await jobs_of(engine)) == 1


async def test_a_tick_whose_input_no_longer_fits_is_told_and_the_next_one_is_tried(
    engine: Engine, store: SQLiteStore, clock: HandClock
) -> None:
    await engine.schedules.put(HOURLY)
    newer = App()

    @newer.job
    async def report(ctx: Context, years: list[int]) -> None: ...

    clock.milliseconds += HOUR
    changed = Engine(store, newer.kinds, clock)
    assert await changed.scheduler.fire_due() == START + 2 * HOUR
    stands = await engine.schedules.get("hourly")
    assert stands.problem is not None
    assert "does not fit kind 'report'" in stands.problem
    assert await jobs_of(engine) == []
    await changed.schedules.put(replace(HOURLY, input="[2030]"))
    assert (await engine.schedules.get("hourly")).problem is None
    clock.milliseconds += HOUR
    await changed.scheduler.fire_due()
    assert await ticks_of(engine) == [START + 2 * HOUR]


async def test_a_schedule_that_cannot_be_fired_here_does_not_hold_up_the_others(
    engine: Engine, store: SQLiteStore, clock: HandClock
) -> None:
    # A zone that this machine does not know, as another one with newer data would have written it.
    made, _ = await engine.schedules.put(HOURLY)
    unknown = Timing(cron="0 * * * *", timezone="Mars/Olympus")
    foreign = replace(HOURLY, name="foreign", timing=unknown)
    await store.schedules.put_schedule(replace(made, definition=foreign, revision="r"), None)
    clock.milliseconds += HOUR
    assert await engine.scheduler.fire_due() == START + 2 * HOUR
    assert len(await jobs_of(engine)) == 1
    assert (await engine.schedules.get("foreign")).next_at == START + HOUR


# --- the task that fires


async def fired(engine: Engine, jobs: int, name: str = "soon") -> None:
    """Wait until a schedule has so many jobs."""
    with contextlib.closing(engine.store.subscribe(Topic.WORK)) as signal:
        while len(await jobs_of(engine, name)) < jobs:
            assert await signal.wait(LONG)


async def test_the_ticker_sleeps_until_the_tick_and_is_woken_by_a_change(
    store: SQLiteStore,
) -> None:
    engine = Engine(store, declare().kinds)
    running = asyncio.create_task(engine.scheduler.run())
    try:
        # It sleeps for half a minute now, if nobody wakes it.
        await engine.schedules.put(ScheduleDefinition("soon", "tidy", Timing(every_ms=1_000)))
        await fired(engine, 2)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class FailingOnce(StoreProxy):
    """A store that cannot be read the first time it is asked what is due."""

    def __init__(self, store: SQLiteStore) -> None:
        super().__init__(store)
        self.failed = False

    async def list_due_schedules(self, *arguments: Any) -> Any:
        if not self.failed:
            self.failed = True
            raise StoreUnavailable("not now")
        return await self._store.schedules.list_due_schedules(*arguments)


async def test_an_outage_of_the_store_is_waited_out(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "RETRY_S", 0.01)
    failing: Any = FailingOnce(store)
    engine = Engine(failing, declare().kinds)
    await engine.schedules.put(ScheduleDefinition("soon", "tidy", Timing(every_ms=1_000)))
    running = asyncio.create_task(engine.scheduler.run())
    try:
        await fired(engine, 1)
        assert failing.failed
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# --- changing


async def test_a_schedule_is_made_then_changed_then_left_alone(
    engine: Engine, clock: HandClock
) -> None:
    made, is_new = await engine.schedules.put(HOURLY)
    assert (is_new, made.next_at, made.created_at) == (True, START + HOUR, START)
    clock.milliseconds += 10 * MINUTE
    changed, is_new = await engine.schedules.put(replace(HOURLY, input='"2031"'))
    assert (is_new, changed.next_at, changed.created_at) == (False, START + HOUR, START)
    assert changed.updated_at == clock.now()
    same, is_new = await engine.schedules.put(replace(HOURLY, input='"2031"'))
    assert (same, is_new) == (changed, False)
    every_minute = replace(HOURLY, timing=Timing(cron="* * * * *"))
    moved, _ = await engine.schedules.put(every_minute)
    assert moved.next_at == START + 11 * MINUTE


async def test_a_new_timing_does_not_bring_a_tick_back(engine: Engine, clock: HandClock) -> None:
    await engine.schedules.put(replace(HOURLY, timing=Timing(cron="0 * * * *")))
    clock.milliseconds += HOUR
    await engine.scheduler.fire_due()
    clock.milliseconds -= 5_000  # another server, whose clock is behind
    moved, _ = await engine.schedules.put(replace(HOURLY, timing=Timing(cron="*/30 * * * *")))
    assert moved.next_at == START + HOUR + 30 * MINUTE


async def test_a_change_of_the_job_does_not_lose_a_tick_that_is_due(
    engine: Engine, clock: HandClock
) -> None:
    await engine.schedules.put(HOURLY)
    clock.milliseconds += HOUR
    await engine.schedules.put(replace(HOURLY, priority=3))
    await engine.scheduler.fire_due()
    [job] = await jobs_of(engine)
    assert (job.run_at, job.priority) == (START + HOUR, 3)


async def test_a_paused_schedule_fires_nothing_and_goes_on_with_its_next_tick(
    engine: Engine, clock: HandClock
) -> None:
    await engine.schedules.put(replace(HOURLY, catch_up=CatchUp.ALL))
    paused = await engine.schedules.pause("hourly")
    assert (paused.paused, paused.next_at) == (True, None)
    assert await engine.schedules.pause("hourly") == paused
    assert engine.schedules.upcoming(paused, 2) == [START + HOUR, START + 2 * HOUR]
    clock.milliseconds += 5 * HOUR + MINUTE
    assert await engine.scheduler.fire_due() is None
    changed, _ = await engine.schedules.put(replace(HOURLY, timing=Timing(cron="5 * * * *")))
    assert (changed.paused, changed.next_at) == (True, None)
    resumed = await engine.schedules.resume("hourly")
    assert (resumed.paused, resumed.next_at) == (False, START + 5 * HOUR + 5 * MINUTE)
    assert await engine.schedules.resume("hourly") == resumed
    assert await jobs_of(engine) == []


async def test_a_trigger_makes_a_job_now_and_leaves_the_ticks_alone(
    engine: Engine, clock: HandClock
) -> None:
    await engine.schedules.put(replace(HOURLY, overlap=Overlap.SKIP))
    await engine.schedules.pause("hourly")
    [job], _ = await engine.trigger("hourly")
    assert (job.run_at, job.labels) == (clock.now(), {"schedule": "hourly"})
    assert await engine.get(job.id) == job
    await engine.schedules.resume("hourly")
    stands = await engine.schedules.get("hourly")
    assert (stands.last_at, stands.last_job, stands.next_at) == (None, job.id, START + HOUR)
    [again], _ = await engine.trigger("hourly")
    assert again.id != job.id, "a person who asks is heard, whatever runs"
    clock.milliseconds += HOUR
    await engine.scheduler.fire_due()
    assert len(await jobs_of(engine)) == 2, "the tick is left out while that one runs"


async def test_a_deleted_schedule_fires_nothing(engine: Engine, clock: HandClock) -> None:
    await engine.schedules.put(HOURLY)
    await engine.schedules.delete("hourly")
    clock.milliseconds += HOUR
    assert await engine.scheduler.fire_due() is None
    for verb in ("get", "delete", "pause", "resume"):
        with pytest.raises(NotFound):
            await getattr(engine.schedules, verb)("hourly")
        with pytest.raises(NotFound):
            await getattr(engine.schedules, verb)("no\0name")


async def test_changes_that_meet_all_happen(engine: Engine) -> None:
    await engine.schedules.put(HOURLY)
    changes = [replace(HOURLY, priority=number) for number in range(10)]
    triggered = [engine.trigger("hourly") for _ in range(10)]
    await asyncio.gather(*(engine.schedules.put(change) for change in changes), *triggered)
    assert (await engine.schedules.get("hourly")).definition in changes
    assert len(await jobs_of(engine)) == 10


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"timing": Timing(cron="* 25 * * *")}, ["/cron"]),
        ({"timing": Timing(cron="@daily", timezone="Nowhere")}, ["/timezone"]),
        ({"name": "not a name"}, ["/name"]),
        ({"labels": '{"schedule":"x"}'}, ["/labels/schedule"]),
        ({"input": "5"}, ["/input"]),
        ({"priority": 5_000}, ["/priority"]),
        ({"queue": "?"}, ["/queue"]),
    ],
)
async def test_what_cannot_work_is_refused_before_anything_is_written(
    engine: Engine, changes: dict[str, Any], pointers: list[str]
) -> None:
    with pytest.raises(InvalidPayload) as refused:
        await engine.schedules.put(replace(HOURLY, **changes))
    assert [place for place, _ in refused.value.problems] == pointers
    assert await engine.schedules.page() == []


async def test_a_schedule_of_an_unknown_kind_is_refused(engine: Engine) -> None:
    with pytest.raises(UnknownKind):
        await engine.schedules.put(replace(HOURLY, kind="unknown"))


# --- what an app declares


def declaring(**cron: str) -> App:
    """Return an app that declares schedules of these names."""
    app = declare()
    for name, text in cron.items():
        app.schedule(name, "tidy", cron=text)
    return app


async def names(engine: Engine) -> list[str]:
    return [schedule.name for schedule in await engine.schedules.page()]


async def test_declared_schedules_are_made_changed_and_removed(
    engine: Engine, clock: HandClock
) -> None:
    register = engine.schedules.register
    await engine.schedules.put(HOURLY)
    await register(declaring(a="@daily", b="@hourly").schedules.values())
    assert await names(engine) == ["a", "b", "hourly"]
    before = await engine.schedules.get("a")
    assert before.declared
    await engine.schedules.pause("b")
    clock.milliseconds += MINUTE

    await register(declaring(a="@daily", b="@weekly").schedules.values())
    assert await engine.schedules.get("a") == before, "what is the same is left alone"
    changed = await engine.schedules.get("b")
    assert (changed.definition.timing.cron, changed.paused) == ("@weekly", True)

    await register(declaring(a="@daily").schedules.values())
    assert await names(engine) == ["a", "hourly"]
    await register(())
    assert await names(engine) == ["hourly"], "what was not declared stays"


async def test_an_app_leaves_what_others_declare_alone(engine: Engine, store: SQLiteStore) -> None:
    await engine.schedules.register(declaring(a="@daily").schedules.values())
    other = App()

    @other.job
    async def something_else(ctx: Context) -> None: ...

    await Engine(store, other.kinds).schedules.register(())
    assert await names(engine) == ["a"]


async def test_what_is_declared_is_changed_in_the_code_only(engine: Engine) -> None:
    await engine.schedules.register(declaring(hourly="@hourly").schedules.values())
    with pytest.raises(Conflict, match="declared by an app"):
        await engine.schedules.put(HOURLY)
    await engine.schedules.delete("hourly")
    await engine.schedules.put(HOURLY)
    await engine.schedules.register(declaring(hourly="@hourly").schedules.values())
    assert (await engine.schedules.get("hourly")).declared


async def test_many_processes_that_start_at_once_register_the_same(
    store: SQLiteStore, clock: HandClock
) -> None:
    declared = declaring(a="@daily", b="@hourly").schedules.values()
    engines = [Engine(store, declare().kinds, clock) for _ in range(6)]
    await asyncio.gather(*(engine.schedules.register(declared) for engine in engines))
    found: list[Schedule] = await engines[0].schedules.page()
    assert [one.name for one in found] == ["a", "b"]


async def test_a_worker_runs_the_jobs_of_a_schedule(engine: Engine, clock: HandClock) -> None:
    await engine.schedules.put(HOURLY)
    clock.milliseconds += HOUR
    await engine.scheduler.fire_due()
    await engine.store.workers.register_worker(WorkerInfo("w", "here", 1, ("report",), 1, START))
    [claim] = (await engine.claim("w", ["report"], 5)).claims
    assert (claim.input, claim.queue) == ('"2030"', "reports")
