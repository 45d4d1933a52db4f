"""When ticks are, and which of them become jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.ids import is_ulid, ulid_time
from coatcheck.model.schedule import (
    CATCH_UP_AT_MOST,
    JOBS_AT_ONCE,
    MISSED_AFTER_MS,
    CatchUp,
    DueTicks,
    Overlap,
    Schedule,
    ScheduleDefinition,
    Timing,
    UnknownZone,
    due_at,
    zone_of,
)

NOW = 1_700_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
HOURLY = Timing(every_ms=HOUR)


def schedule(
    timing: Timing = HOURLY,
    catch_up: CatchUp = CatchUp.LATEST,
    overlap: Overlap = Overlap.ALLOW,
    next_at: int | None = None,
) -> Schedule:
    definition = ScheduleDefinition("nightly", "report", timing, catch_up=catch_up, overlap=overlap)
    return Schedule(
        tenant="default",
        definition=definition,
        declared=False,
        revision="1",
        paused=False,
        next_at=timing.after(NOW, NOW) if next_at is None else next_at,
        last_at=None,
        last_job=None,
        problem=None,
        created_at=NOW,
        updated_at=NOW,
    )


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@given(st.integers(1_000, 10**10), st.integers(0, 2 * NOW), st.integers(0, 2 * NOW), st.booleans())
def test_an_interval_never_drifts(every: int, start: int, at: int, from_start: bool) -> None:
    timing = Timing(every_ms=every, start_at=start if from_start else None)
    ticks = timing.upcoming(at, start, 5)
    assert ticks[0] > at
    assert ticks[0] >= start
    assert all((tick - start) % every == 0 for tick in ticks)
    assert all(later - earlier == every for earlier, later in pairwise(ticks))
    assert ticks[0] - every <= max(at, start - every)


def test_an_interval_without_a_start_begins_when_it_is_made() -> None:
    assert Timing(every_ms=5_000).upcoming(NOW, NOW, 2) == [NOW + 5_000, NOW + 10_000]
    later = Timing(every_ms=5_000, start_at=NOW + 7)
    assert later.upcoming(NOW, NOW, 2) == [NOW + 7, NOW + 5_007]


def test_an_interval_ends_with_the_calendar() -> None:
    end = moment("9999-12-31T23:59:59.000Z")
    timing = Timing(every_ms=HOUR, start_at=end)
    assert timing.upcoming(NOW, NOW, 3) == [end]
    due = due_at(schedule(timing, next_at=end), end)
    assert due == DueTicks([end], None)


def test_a_cron_expression_is_read_in_its_time_zone() -> None:
    timing = Timing(cron="0 3 * * *", timezone="Europe/Berlin")
    first, second = timing.upcoming(moment("2026-03-28T00:00:00.500Z"), 0, 2)
    assert first == moment("2026-03-28T03:00:00+01:00")
    assert second == moment("2026-03-29T03:00:00+02:00")


@settings(deadline=None)
@given(st.sampled_from(["* * * * *", "0 3 * * *", "17 4 1 * *"]), st.integers(1, 30))
def test_the_newest_ticks_are_those_at_the_end(cron: str, most: int) -> None:
    timing = Timing(cron=cron, timezone="Europe/Berlin")
    all_ticks = timing.upcoming(NOW, NOW, 200)
    for last in (0, 1, 57, 199):
        assert (
            timing.newest(all_ticks[0], all_ticks[last] + 5, NOW, most)
            == (all_ticks[: last + 1][-most:])
        )


def test_the_newest_ticks_after_a_very_long_time_are_found_quickly() -> None:
    every_minute, first = Timing(cron="* * * * *"), NOW - NOW % MINUTE
    until = first + 20 * 365 * 24 * HOUR
    assert every_minute.newest(first, until, NOW, 2) == [until - MINUTE, until]
    assert Timing(every_ms=1_000).newest(first, until, first, 2) == [until - 1_000, until]


def test_before_its_tick_there_is_nothing_to_do() -> None:
    assert due_at(schedule(), NOW + HOUR - 1) is None
    assert due_at(replace(schedule(), next_at=None, paused=True), NOW + 9 * HOUR) is None


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("late", [0, 1, MISSED_AFTER_MS - 1])
def test_a_tick_in_time_is_fired_whatever_the_policy(catch_up: CatchUp, late: int) -> None:
    due = due_at(schedule(catch_up=catch_up), NOW + HOUR + late)
    assert due == DueTicks([NOW + HOUR], NOW + 2 * HOUR)


def test_ticks_that_come_close_together_are_each_fired_when_all_are_in_time() -> None:
    often = schedule(Timing(every_ms=1_000))
    assert due_at(often, NOW + 5_000) == DueTicks([NOW + 1_000], NOW + 2_000)


MISSED = NOW + 3 * HOUR + 30 * MINUTE  # three ticks, the last half an hour ago


def test_of_missed_ticks_the_latest_is_fired_by_default() -> None:
    assert due_at(schedule(), MISSED) == DueTicks([NOW + 3 * HOUR], NOW + 4 * HOUR)


def test_missed_ticks_can_be_skipped() -> None:
    skipping = schedule(catch_up=CatchUp.SKIP)
    assert due_at(skipping, MISSED) == DueTicks([], NOW + 4 * HOUR)
    # Of these the last is not missed.
    assert due_at(skipping, NOW + 3 * HOUR + 5) == DueTicks([NOW + 3 * HOUR], NOW + 4 * HOUR)


def test_missed_ticks_can_all_be_fired_oldest_first() -> None:
    catching_up = schedule(catch_up=CatchUp.ALL)
    ticks = [NOW + number * HOUR for number in (1, 2, 3)]
    assert due_at(catching_up, MISSED) == DueTicks(ticks, NOW + 4 * HOUR)


def test_not_more_than_a_thousand_are_fired_a_hundred_at_a_time() -> None:
    catching_up, now = schedule(catch_up=CatchUp.ALL), NOW + 5_000 * HOUR
    fired: list[int] = []
    while (due := due_at(catching_up, now)) is not None:
        assert len(due.ticks) <= JOBS_AT_ONCE
        fired += due.ticks
        catching_up = replace(catching_up, next_at=due.next_at)
    assert fired == [NOW + number * HOUR for number in range(4_001, 5_001)]
    assert len(fired) == CATCH_UP_AT_MOST


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_tick_that_its_time_zone_no_longer_has_is_still_one(catch_up: CatchUp) -> None:
    # It was three o'clock there when the tick was worked out; now it is another time.
    timing = Timing(cron="0 3 * * *", timezone="Europe/Berlin")
    first, now = moment("2026-03-28T05:00:00Z"), moment("2026-03-28T06:00:00Z")
    due = due_at(schedule(timing, catch_up, next_at=first), now)
    expected = [] if catch_up is CatchUp.SKIP else [first]
    assert due == DueTicks(expected, moment("2026-03-29T01:00:00Z"))


def test_all_that_may_not_overlap_is_the_latest() -> None:
    alone = schedule(catch_up=CatchUp.ALL, overlap=Overlap.SKIP)
    assert due_at(alone, MISSED) == DueTicks([NOW + 3 * HOUR], NOW + 4 * HOUR)


def test_a_tick_has_always_the_same_id_and_no_other_tick_has_it() -> None:
    one = schedule()
    other = replace(one, definition=replace(one.definition, name="nightly2"))
    foreign = replace(one, tenant="acme")
    ids = [which.job_id(NOW + tick) for which in (one, other, foreign) for tick in (0, 1)]
    assert len(set(ids)) == 6
    assert ids[0] == schedule(Timing(cron="* * * * *")).job_id(NOW)
    assert all(is_ulid(job_id) for job_id in ids)
    assert [ulid_time(job_id) for job_id in ids[:2]] == [NOW, NOW + 1]


@pytest.mark.parametrize(
    ("timing", "pointers"),
    [
        (Timing(), ["/cron"]),
        (Timing(cron="* * * * *", every_ms=5_000), ["/cron"]),
        (Timing(cron="61 * * * *"), ["/cron"]),
        (Timing(cron="0 3 * * *", start_at=NOW), ["/start_at"]),
        (Timing(cron="0 3 * * *", timezone="Berlin"), ["/timezone"]),
        (Timing(every_ms=999), ["/every_s"]),
        (Timing(every_ms=10**15), ["/every_s"]),
        (Timing(cron="x", timezone="../etc/passwd"), ["/cron", "/timezone"]),
        (Timing(every_ms=1_000, timezone="Europe/Berlin"), []),
    ],
)
def test_what_is_wrong_with_a_timing_is_said_where(timing: Timing, pointers: list[str]) -> None:
    assert [place for place, _ in timing.problems()] == pointers


@pytest.mark.parametrize(
    "name",
    ["", "Berlin", "localtime", "/etc/localtime", "../x", "Europe/Berlin ", "a\0b", "Europe"],
)
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(UnknownZone, match="IANA"):
        zone_of(name)
