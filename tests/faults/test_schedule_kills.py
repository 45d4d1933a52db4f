"""Each tick becomes one job, even with four racing servers, and with servers that are killed
before, during and after it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.schedule import CatchUp, ScheduleDefinition, Timing
from coatcheck.store.base import JobFilter
from coatcheck.testing.checker import RunRecord, Submit, check, read_records
from tests.store.another_process import AnotherProcess

from .place import Place
from .schedule_kills import POINTS, ToldClock, app

pytestmark = pytest.mark.anyio

MINUTE = 60_000
START = int(datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp() * 1000)
SERVERS = 4
TICKS = 60
SCHEDULES = [
    ScheduleDefinition("minutely", "tick", Timing(cron="* * * * *", timezone="Europe/Berlin")),
    ScheduleDefinition("interval", "tick", Timing(every_ms=MINUTE, start_at=START)),
    ScheduleDefinition("often", "tick", Timing(every_ms=20_000), catch_up=CatchUp.ALL),
]


@pytest.fixture
async def engine(place: Place) -> AsyncIterator[Engine]:
    store = place.store()
    await store.open()
    yield Engine(store, app.kinds, ToldClock(START))
    await store.close()


def server(place: Place) -> AnotherProcess:
    return AnotherProcess(json.dumps(place.settings()), module="tests.faults.schedule_kills")


async def ticks_of(engine: Engine, name: str) -> list[int]:
    """Return when the jobs of a schedule were due, in order."""
    which = JobFilter(DEFAULT_TENANT, labels=(("schedule", name),), limit=100_000)
    return sorted(job.run_at for job in await engine.list_jobs(which))


async def check_ticks(engine: Engine, due: dict[str, list[int]]) -> None:
    """Check the promises, where each tick that was due is a submit that may happen once."""
    keys = {f"{name} {at}" for name, ticks in due.items() for at in ticks}
    submits = [Submit("", answered=False, key=key) for key in sorted(keys)]
    records = []
    for record in await read_records(engine.store, submits):
        assert record.job is not None
        key = f"{record.job.labels['schedule']} {record.job.run_at}"
        records.append(replace(record, key=key))
    check(RunRecord(submits, records, ended=False))
    assert {record.key for record in records} == keys


async def test_four_racing_servers_submit_one_job_per_tick(engine: Engine, place: Place) -> None:
    for definition in SCHEDULES:
        await engine.schedules.put(definition)
    with ExitStack() as stack:
        servers = [stack.enter_context(server(place)) for _ in range(SERVERS)]
        for one in servers:
            assert one.says() == "ready"
        for minute in range(1, TICKS + 1):
            for one in servers:
                one.tell(str(START + minute * MINUTE))
            for one in servers:
                assert one.says() == "fired"
    minutes = [START + minute * MINUTE for minute in range(1, TICKS + 1)]
    assert await ticks_of(engine, "minutely") == minutes
    assert await ticks_of(engine, "interval") == minutes
    often = [START + number * 20_000 for number in range(1, 3 * TICKS + 1)]
    assert await ticks_of(engine, "often") == often
    await check_ticks(engine, {"minutely": minutes, "interval": minutes, "often": often})


@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_server_neither_loses_nor_repeats_a_tick(
    engine: Engine, place: Place, point: str
) -> None:
    await engine.schedules.put(SCHEDULES[0])
    with ExitStack() as stack:
        healthy = stack.enter_context(server(place))
        victims = [stack.enter_context(server(place)) for _ in range(2)]
        for one in (healthy, *victims):
            assert one.says() == "ready"
        expected: list[int] = []
        for minute, victim in enumerate(victims, 1):
            now = START + minute * MINUTE
            victim.tell(f"{now} {point}")
            assert victim.says() == "", "it is dead"
            made = await ticks_of(engine, "minutely")
            assert len(made) == minute - (point != "after")
            healthy.tell(str(now + 5))
            assert healthy.says() == "fired"
            expected.append(START + minute * MINUTE)
            assert await ticks_of(engine, "minutely") == expected
    await check_ticks(engine, {"minutely": expected})
