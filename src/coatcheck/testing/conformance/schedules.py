"""Conformance tests for schedules: compare-and-set by revision, and one job per tick."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from coatcheck.model.job import JobInsert
from coatcheck.model.outcome import Errored, Succeeded
from coatcheck.model.schedule import CatchUp, Overlap, Schedule, ScheduleDefinition, Timing
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, Store, Topic
from coatcheck.store.schedules import ScheduleFiring
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    everything,
    new_id,
    new_job,
    reclaim,
    settle,
)
from coatcheck.testing.conformance.wakeups import wakes

EVERY = 60_000


def new_schedule(name: str = "nightly", **fields: Any) -> Schedule:
    """Return a schedule that waits for its first tick."""
    schedule = Schedule(
        tenant=TENANT,
        definition=ScheduleDefinition(name, "mail", Timing(every_ms=EVERY)),
        declared=False,
        revision=new_id(),
        paused=False,
        next_at=NOW + EVERY,
        last_at=None,
        last_job=None,
        problem=None,
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(schedule, **fields)


async def put(store: Store, name: str = "nightly", **fields: Any) -> Schedule:
    """Create a schedule."""
    schedule = new_schedule(name, **fields)
    assert await store.schedules.put_schedule(schedule, None) is True
    return schedule


def tick_job(schedule: Schedule, tick: int) -> JobInsert:
    """Return the job of a tick."""
    job_id = schedule.job_id(tick)
    return new_job(id=job_id, run_at=tick, tenant=schedule.tenant, labels='{"schedule":"nightly"}')


def firing(seen: Schedule, *ticks: int, **fields: Any) -> ScheduleFiring:
    """Return a firing of these ticks (default: the next one), with a job for each."""
    due = ticks or (seen.next_at or 0,)
    jobs = tuple(tick_job(seen, tick) for tick in due)
    return ScheduleFiring(seen, new_id(), jobs, due[-1] + EVERY, due[-1])._replace(**fields)


async def stands(store: Store, name: str = "nightly") -> Schedule:
    """Return an existing schedule."""
    found = await store.schedules.get_schedule(TENANT, name)
    assert found is not None
    return found


class ScheduleConformance(Conformance):
    """Tests for the methods of `coatcheck.store.schedules`."""

    async def test_a_schedule_is_read_as_it_was_written(self, store: Store) -> None:
        """Every field of cron and interval schedules is stored unchanged."""
        daily = ScheduleDefinition(
            name="daily",
            kind="chart",
            timing=Timing(cron="0 3 * * *", timezone="Europe/Berlin"),
            input='{"n":"\u00e9"}',
            queue="slow",
            priority=-7,
            labels='{"a":"b"}',
            deadline_s=90.5,
            max_attempts=4,
            catch_up=CatchUp.ALL,
            overlap=Overlap.SKIP,
        )
        full = await put(
            store,
            definition=daily,
            declared=True,
            paused=True,
            next_at=None,
            last_at=NOW - 1,
            last_job="job",
            problem="it does not fit",
            updated_at=NOW + 5,
        )
        plain = await put(
            store,
            definition=ScheduleDefinition(
                "plain", "mail", Timing(every_ms=5_000, start_at=NOW + 1)
            ),
        )
        assert await store.schedules.get_schedule(TENANT, "daily") == full
        assert await store.schedules.get_schedule(TENANT, "plain") == plain
        assert await store.schedules.get_schedule("other", "daily") is None
        assert await store.schedules.get_schedule(TENANT, "weekly") is None

    async def test_schedules_are_listed_by_name(self, store: Store) -> None:
        """Schedules of a tenant are sorted by name and listed in pages."""
        for name in ("b", "c", "a", "Z"):
            await put(store, name)
        await put(store, "b", tenant="acme")
        listed = [schedule.name for schedule in await store.schedules.list_schedules(TENANT)]
        assert listed == ["Z", "a", "b", "c"]
        page = await store.schedules.list_schedules(TENANT, after="a", limit=1)
        assert [schedule.name for schedule in page] == ["b"]
        assert [schedule.name for schedule in await store.schedules.list_schedules("acme")] == ["b"]

    async def test_what_is_there_is_not_written_over_unseen(self, store: Store) -> None:
        """A write succeeds only with the current revision, or with None for a new schedule."""
        first = await put(store)
        second = replace(first, revision=new_id(), paused=True, next_at=None)
        assert await store.schedules.put_schedule(second, None) is False
        assert await store.schedules.put_schedule(second, new_id()) is False
        assert await stands(store) == first
        assert await store.schedules.put_schedule(second, first.revision) is True
        assert await stands(store) == second
        assert await store.schedules.put_schedule(new_schedule(), first.revision) is False
        assert await store.schedules.put_schedule(new_schedule("other"), first.revision) is False
        assert await store.schedules.get_schedule(TENANT, "other") is None

    async def test_of_many_that_write_at_once_one_does(self, store: Store) -> None:
        """Only one of several concurrent writes with the same expected revision succeeds."""
        new = [new_schedule() for _ in range(8)]
        answers = await asyncio.gather(*(store.schedules.put_schedule(one, None) for one in new))
        assert answers.count(True) == 1
        there = await stands(store)
        assert there == new[answers.index(True)]
        newer = [new_schedule() for _ in range(8)]
        answers = await asyncio.gather(
            *(store.schedules.put_schedule(one, there.revision) for one in newer)
        )
        assert answers.count(True) == 1

    async def test_a_schedule_can_be_deleted(self, store: Store) -> None:
        """A deleted schedule does not fire again; its jobs remain."""
        schedule = await put(store)
        tick = schedule.next_at
        assert tick is not None
        assert await store.schedules.fire_schedule(firing(schedule), tick) == 1
        seen = await stands(store)
        assert await store.schedules.delete_schedule(TENANT, "nightly") is True
        assert await store.schedules.delete_schedule(TENANT, "nightly") is False
        assert await store.schedules.get_schedule(TENANT, "nightly") is None
        assert await store.schedules.fire_schedule(firing(seen), tick + EVERY) is None
        assert len(await everything(store)) == 1

    async def test_due_is_what_waits_for_a_tick_that_has_come(self, store: Store) -> None:
        """Due schedules of the given kinds are listed longest due first, with the next due time."""
        chart = ScheduleDefinition("chart", "chart", Timing(every_ms=EVERY))
        await put(store, "late", next_at=NOW - 5_000)
        await put(store, "now", tenant="acme", next_at=NOW)
        await put(store, "soon", next_at=NOW + 1)
        await put(store, "later", next_at=NOW + 2)
        await put(store, "paused", paused=True, next_at=None)
        await put(store, definition=chart, next_at=NOW - 1)
        due, next_at = await store.schedules.list_due_schedules(["mail"], NOW, 10)
        assert ([one.name for one in due], next_at) == (["late", "now"], NOW + 1)
        due, next_at = await store.schedules.list_due_schedules(
            ["mail", "chart", "mail"], NOW + 2, 3
        )
        assert [one.name for one in due] == ["late", "chart", "now"]
        assert next_at is None
        assert await store.schedules.list_due_schedules(["chart"], NOW - 2, 10) == ([], NOW - 1)
        assert await store.schedules.list_due_schedules([], NOW, 10) == ([], None)

    async def test_a_firing_makes_a_job_and_moves_the_schedule_on(self, store: Store) -> None:
        """A firing submits the job and advances the schedule in one write."""
        schedule = await put(store)
        tick = NOW + EVERY
        fire = firing(schedule)
        assert await store.schedules.fire_schedule(fire, tick + 3) == 1
        [job] = await everything(store)
        assert (job.id, job.state, job.run_at) == (schedule.job_id(tick), State.QUEUED, tick)
        found = await store.jobs.list_jobs(JobFilter(TENANT, labels=(("schedule", "nightly"),)))
        assert [one.id for one in found] == [job.id]
        assert await stands(store) == replace(
            schedule, revision=fire.revision, next_at=tick + EVERY, last_at=tick, last_job=job.id
        )

    async def test_a_tick_that_was_fired_is_not_fired_again(self, store: Store) -> None:
        """A firing with an outdated revision changes nothing."""
        schedule = await put(store)
        assert await store.schedules.fire_schedule(firing(schedule), NOW + EVERY) == 1
        after = await stands(store)
        assert await store.schedules.fire_schedule(firing(schedule), NOW + EVERY) is None
        assert await stands(store) == after
        assert len(await everything(store)) == 1

    async def test_of_many_that_fire_at_once_one_does(self, store: Store) -> None:
        """Only one of several concurrent firings of a tick submits the job."""
        for number in range(1, 6):
            seen = (await put(store)) if number == 1 else await stands(store)
            tick = NOW + number * EVERY
            assert seen.next_at == tick
            fired = await asyncio.gather(
                *(store.schedules.fire_schedule(firing(seen), tick) for _ in range(8))
            )
            assert sorted(fired, key=str) == [1] + [None] * 7
        assert len(await everything(store)) == 5

    async def test_a_schedule_that_was_changed_fires_nothing_old(self, store: Store) -> None:
        """A firing prepared before a change or a pause is rejected."""
        schedule = await put(store)
        paused = replace(schedule, revision=new_id(), paused=True, next_at=None)
        assert await store.schedules.put_schedule(paused, schedule.revision) is True
        assert await store.schedules.fire_schedule(firing(schedule), NOW + EVERY) is None
        assert await everything(store) == []
        assert await stands(store) == paused

    async def test_a_change_that_has_not_seen_a_firing_is_refused(self, store: Store) -> None:
        """A change based on a revision from before a firing is rejected, so no tick repeats."""
        schedule = await put(store)
        assert await store.schedules.fire_schedule(firing(schedule), NOW + EVERY) == 1
        paused = replace(schedule, revision=new_id(), paused=True)
        assert await store.schedules.put_schedule(paused, schedule.revision) is False

    async def test_several_ticks_are_fired_at_once(self, store: Store) -> None:
        """A firing can cover several missed ticks; the schedule records the last one."""
        schedule = await put(store)
        ticks = [NOW + number * EVERY for number in (1, 2, 3)]
        assert await store.schedules.fire_schedule(firing(schedule, *ticks), ticks[-1]) == 3
        assert sorted(job.run_at for job in await everything(store)) == ticks
        after = await stands(store)
        assert (after.last_at, after.next_at) == (ticks[-1], ticks[-1] + EVERY)
        assert after.last_job == schedule.job_id(ticks[-1])

    async def test_a_schedule_can_move_on_without_a_job(self, store: Store) -> None:
        """A firing without jobs advances the schedule and records a problem if there is one."""
        schedule = await put(store, last_at=NOW, last_job="before")
        fire = firing(schedule, jobs=(), last_at=None, problem="the input does not fit")
        assert await store.schedules.fire_schedule(fire, NOW + EVERY) == 0
        after = await stands(store)
        assert (after.last_at, after.last_job) == (NOW, "before")
        assert (after.next_at, after.problem) == (NOW + 2 * EVERY, "the input does not fit")
        assert await store.schedules.fire_schedule(firing(after), NOW + 2 * EVERY) == 1
        assert (await stands(store)).problem is None

    async def test_a_tick_can_be_left_out_while_the_job_before_runs(
        self, store: Store, worker: str
    ) -> None:
        """With `unless_running`, a tick is skipped until the previous job is finished or gone."""
        await put(store)
        now = NOW

        async def fire() -> int | None:
            nonlocal now
            now += EVERY
            return await store.schedules.fire_schedule(
                firing(await stands(store), unless_running=True), now
            )

        assert await fire() == 1
        first = (await stands(store)).last_job
        assert first is not None
        assert await fire() == 0
        lease = await reclaim(store, first, now=now)
        assert await fire() == 0
        assert (await stands(store)).last_job == first
        assert (await stands(store)).next_at == now + EVERY
        await settle(store, lease, Errored(BOOM, retry_after_ms=EVERY), now)
        assert await fire() == 0
        lease = await reclaim(store, first, now=now)
        await settle(store, lease, Succeeded("1"), now)
        assert await fire() == 1
        second = (await stands(store)).last_job
        assert second not in (None, first)
        await store.jobs.cancel(TENANT, str(second), now)
        await store.jobs.delete(TENANT, str(second), now)
        assert await fire() == 1

    async def test_a_schedule_made_again_has_no_second_job_of_a_tick(self, store: Store) -> None:
        """A recreated schedule uses the same job id for a tick, so the job is not duplicated."""
        schedule = await put(store)
        assert await store.schedules.fire_schedule(firing(schedule), NOW + EVERY) == 1
        await store.schedules.delete_schedule(TENANT, "nightly")
        again = await put(store)
        assert again.job_id(NOW + EVERY) == schedule.job_id(NOW + EVERY)
        await store.schedules.fire_schedule(firing(again), NOW + EVERY)
        assert len(await everything(store)) == 1
        assert (await stands(store)).next_at == NOW + 2 * EVERY

    async def test_those_who_wait_for_schedules_are_woken_by_a_change(self, store: Store) -> None:
        """Writing a schedule wakes the schedulers, because it may be due before the others."""
        assert await wakes(
            store, Topic.SCHEDULES, store.schedules.put_schedule(new_schedule(), None)
        )
        there = await stands(store)
        newer = replace(there, revision=new_id())
        assert await wakes(
            store, Topic.SCHEDULES, store.schedules.put_schedule(newer, there.revision)
        )

    async def test_workers_are_woken_by_a_firing(self, store: Store) -> None:
        """A firing wakes the workers."""
        schedule = await put(store)
        fire = store.schedules.fire_schedule(firing(schedule), NOW + EVERY)
        assert await wakes(store, Topic.WORK, fire)
