"""Cron expressions beside a walk over every minute, where clocks change and where they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coatcheck.model.cron import SHORTHANDS, Cron, InvalidCron, read_cron

MINUTE = timedelta(minutes=1)
# One hour in March and October; at two in the morning; half an hour; at midnight; never.
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "UTC",
]
# Within a day of each of these some zone changes its clock in 2026.
CHANGES = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    datetime(2026, 4, 5, 3, tzinfo=UTC),
    datetime(2026, 9, 6, 4, tzinfo=UTC),
]


def moments(text: str, zone: str, begin: str, count: int) -> list[str]:
    """Return the next moments as local times with their offset."""
    cron, here, found = read_cron(text), ZoneInfo(zone), []
    moment = datetime.fromisoformat(begin).replace(tzinfo=here)
    for _ in range(count):
        after = cron.after(moment.astimezone(UTC), here)
        assert after is not None
        moment = after.astimezone(here)
        found.append(moment.isoformat(timespec="minutes"))
    return found


def walk(cron: Cron, begin: datetime, end: datetime, zone: ZoneInfo) -> list[datetime]:
    """Find the moments of (begin, end] by looking at every minute."""
    found = []
    minute = begin.replace(second=0, microsecond=0) + MINUTE
    before = (minute - MINUTE).astimezone(zone).replace(tzinfo=None)
    seen: set[datetime] = set()
    if not cron.by_elapsed_time:  # what the day before has had already
        early = minute - timedelta(days=1)
        while early < minute:
            seen.add(early.astimezone(zone).replace(tzinfo=None))
            early += MINUTE
    while minute <= end:
        local = minute.astimezone(zone).replace(tzinfo=None, fold=0)
        if cron.by_elapsed_time:
            due = cron.fits(local)
        else:
            due = cron.fits(local) and local not in seen
            left_out = before + MINUTE
            while left_out < local:
                due = due or cron.fits(left_out)
                left_out += MINUTE
            seen.add(local)
        if due:
            found.append(minute)
        before = local
        minute += MINUTE
    return found


def field(first: int, last: int) -> st.SearchStrategy[str]:
    """Generate a field of an expression."""
    number = st.integers(first, last)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    stepped = st.tuples(span, st.integers(1, 20)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    single = st.one_of(number.map(str), span, stepped)
    listed = st.lists(single, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), st.integers(1, 30).map(lambda step: f"*/{step}"), listed)


expressions = st.tuples(
    field(0, 59), field(0, 23), st.just("*"), st.just("*"), st.one_of(st.just("*"), field(0, 7))
).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(expressions, st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(-1500, 1500))
@example("*/10 3 * * *", "Australia/Lord_Howe", CHANGES[5], -300)
@example("30 2 * * *", "Europe/Berlin", CHANGES[0], 45)
@example("0-59 2 * * *", "Europe/Berlin", CHANGES[1], 5)
def test_no_moment_is_missed_and_none_is_made_up(
    text: str, zone_name: str, change: datetime, shift: int
) -> None:
    cron, zone = read_cron(text), ZoneInfo(zone_name)
    begin = change + shift * MINUTE
    end = begin + timedelta(days=2)
    found = []
    moment = cron.after(begin, zone)
    while moment is not None and moment <= end:
        found.append(moment)
        moment = cron.after(moment, zone)
    assert found == walk(cron, begin, end, zone)


dated = st.tuples(
    field(0, 59), field(0, 23), field(1, 28), field(1, 12), st.sampled_from(["*", "1-5", "0,6"])
).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(
    dated,
    st.sampled_from(ZONES),
    st.integers(0, 90 * 365 * 24 * 60).map(lambda n: datetime(1990, 1, 1, tzinfo=UTC) + n * MINUTE),
)
def test_moments_only_grow_and_each_fits_the_fields(
    text: str, zone_name: str, begin: datetime
) -> None:
    cron, zone = read_cron(text), ZoneInfo(zone_name)
    found = [begin]
    for _ in range(10):
        after = cron.after(found[-1], zone)
        assert after is not None
        found.append(after)
    assert all(earlier < later for earlier, later in pairwise(found))
    for moment in found[1:]:
        assert (moment.second, moment.microsecond) == (0, 0)
        local = moment.astimezone(zone).replace(tzinfo=None)
        before = (moment - MINUTE).astimezone(zone).replace(tzinfo=None)
        at_the_end_of_a_gap = local - before > MINUTE and not cron.by_elapsed_time
        assert cron.fits(local) or at_the_end_of_a_gap


def test_a_time_that_spring_leaves_out_comes_once_after_the_gap() -> None:
    begin = "2026-03-28T12:00"
    assert moments("30 2 * * *", "Europe/Berlin", begin, 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert moments("0,15,30 2,3 * * *", "Europe/Berlin", begin, 3) == [
        "2026-03-29T03:00+02:00",  # for 2:00, 2:15, 2:30 and for itself
        "2026-03-29T03:15+02:00",
        "2026-03-29T03:30+02:00",
    ]
    assert moments("30 2 * * *", "America/New_York", "2026-03-07T12:00", 2) == [
        "2026-03-08T03:00-04:00",
        "2026-03-09T02:30-04:00",
    ]
    # Half an hour, from 2:00 to 2:30.
    assert moments("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 2) == [
        "2026-10-04T02:30+11:00",
        "2026-10-05T02:15+11:00",
    ]


def test_a_time_that_comes_twice_in_autumn_counts_once() -> None:
    assert moments("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    assert moments("30 1 * * *", "America/New_York", "2026-10-31T12:00", 2) == [
        "2026-11-01T01:30-04:00",
        "2026-11-02T01:30-05:00",
    ]
    assert moments("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", 2) == [
        "2026-04-05T01:45+11:00",
        "2026-04-06T01:45+10:30",
    ]


def test_every_so_often_follows_real_time() -> None:
    assert moments("30 * * * *", "Europe/Berlin", "2026-10-25T01:00", 4) == [
        "2026-10-25T01:30+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:30+01:00",
    ]
    assert moments("30 * * * *", "Europe/Berlin", "2026-03-29T01:00", 2) == [
        "2026-03-29T01:30+01:00",
        "2026-03-29T03:30+02:00",
    ]
    assert moments("0 * * * *", "Australia/Lord_Howe", "2026-04-05T00:30", 3) == [
        "2026-04-05T01:00+11:00",
        "2026-04-05T02:00+10:30",  # an hour and a half later: at 2:00 it was 1:30 again
        "2026-04-05T03:00+10:30",
    ]
    assert moments("*/15 * * * *", "Australia/Lord_Howe", "2026-04-05T01:40", 4) == [
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T01:45+10:30",
        "2026-04-05T02:00+10:30",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 29 2 *", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("0 0 l * *", ["2026-01-31T00:00+00:00", "2026-02-28T00:00+00:00"]),
        ("0 12 * * 5L", ["2026-01-30T12:00+00:00", "2026-02-27T12:00+00:00"]),
        ("0 12 * * mon#2", ["2026-01-12T12:00+00:00", "2026-02-09T12:00+00:00"]),
        ("5 4 * * SUN", ["2026-01-04T04:05+00:00", "2026-01-11T04:05+00:00"]),
        ("5 4 * * 7", ["2026-01-04T04:05+00:00", "2026-01-11T04:05+00:00"]),
        ("0 0 * * fri-sun", ["2026-01-02T00:00+00:00", "2026-01-03T00:00+00:00"]),
        ("0 8-18/5 * * 1-5", ["2026-01-01T08:00+00:00", "2026-01-01T13:00+00:00"]),
        ("50/4 3 * * *", ["2026-01-01T03:50+00:00", "2026-01-01T03:54+00:00"]),
        # Either day, where both are restricted; both, where one begins with a star.
        ("0 0 13 * 5", ["2026-01-02T00:00+00:00", "2026-01-09T00:00+00:00"]),
        ("0 0 */12 * 2", ["2026-01-13T00:00+00:00", "2026-08-25T00:00+00:00"]),
        ("0 0 1 jan,jul *", ["2026-07-01T00:00+00:00", "2027-01-01T00:00+00:00"]),
        ("@daily", ["2026-01-02T00:00+00:00", "2026-01-03T00:00+00:00"]),
        ("@Hourly", ["2026-01-01T01:00+00:00", "2026-01-01T02:00+00:00"]),
        ("* * 29 2 *", ["2028-02-29T00:00+00:00", "2028-02-29T00:01+00:00"]),
    ],
)
def test_what_expressions_mean(text: str, expected: list[str]) -> None:
    assert moments(text, "UTC", "2026-01-01T00:00", 2) == expected


def test_every_shorthand_can_be_read() -> None:
    for text in SHORTHANDS:
        assert read_cron(text).after(datetime(2026, 1, 1, tzinfo=UTC), UTC) is not None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "five fields"),
        ("* * * *", "five fields .* not 4"),
        ("0 0 3 * * *", "five fields .* not 6"),
        ("@reboot", "'@reboot' is not one of @hourly"),
        ("60 * * * *", "^minute: 60 is not between 0 and 59"),
        ("* 24 * * *", "^hour: 24 is not between 0 and 23"),
        ("* 22-2 * * *", "^hour: '22-2' runs backwards"),
        ("* * 0 * *", "^day of the month: 0 is not between 1 and 31"),
        ("* * * 13 *", "^month: 13 is not between 1 and 12"),
        ("* * * foo *", "^month: 'foo' is not a number or a name"),
        ("* * * * 8", "^day of the week: 8 is not between 0 and 7"),
        ("* * * * 1#6", "^day of the week: '1#6': behind # stands"),
        ("*/0 * * * *", r"^minute: the step of '\*/0' must be"),
        ("*/x * * * *", r"^minute: the step of '\*/x' must be"),
        ("1,,2 * * * *", "^minute: '' is not a number"),
        ("-1 * * * *", "^minute: '' is not a number"),
        ("٣ * * * *", "^minute: '٣' is not a number"),
        ("? * * * *", "^minute: '\\?' is not a number"),
        ("0 0 30 2 *", "^day of the month: no month that is named has such a day"),
        ("0 0 31 4,6 *", "^day of the month: no month"),
        ("0 " * 200, "at most 200 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_name_of_the_field(
    text: str, complaint: str
) -> None:
    with pytest.raises(InvalidCron, match=complaint):
        read_cron(text)


def test_the_end_of_the_calendar_is_the_end() -> None:
    late = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    for text in ("* * * * *", "0 0 * * *", "0 0 1 1 *"):
        assert read_cron(text).after(late, ZoneInfo("Europe/Berlin")) is None
