"""Cron expressions: five fields, and the times that they denote in a time zone.

    minute hour day-of-month month day-of-week

A field is `*`, a number, a range (`1-5`), a list (`0,30`), each with a step (`*/15`, `8-18/2`).
Months and weekdays have their English names (`jan`, `mon`); Sunday is 0 and 7. `L` as a day is the
last of the month, `5L` as a weekday the last Friday, `1#2` the second Monday. `@hourly`, `@daily`,
`@weekly`, `@monthly` and `@yearly` are shorthands. If both days are restricted (neither starts with
`*`), either may match, as in every cron.

When clocks change, the rules of Debian's cron apply:

- An expression whose minute or hour starts with `*` means "every so often". It follows elapsed
  time: every moment whose local time matches counts. The hour that is repeated in autumn has its
  ticks twice; the hour that is skipped in spring has none.
- Any other expression means "at these times of the day", and each occurs once. Times that are
  skipped in spring occur once, together, in the first moment after the gap. Of a time that is
  repeated in autumn, the first one counts.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
# Every weekday falls on every date within so many years, even around 2100, which has no leap day.
_YEARS_AHEAD = 42
_LONGEST = 200


class InvalidCron(ValueError):
    """An invalid expression; the message names the field."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def read(self, text: str) -> frozenset[int]:
        """Return the numbers that a field denotes."""
        found: set[int] = set()
        for part in text.split(","):
            found.update(self._part(part))
        return frozenset(found)

    def _part(self, part: str) -> range:
        span, slash, step_text = part.partition("/")
        step = 1
        if slash:
            if not (step_text.isascii() and step_text.isdecimal() and 0 < int(step_text) < 100):
                raise self.wrong(f"the step of {part!r} must be a number above 0")
            step = int(step_text)
        if span == "*":
            return range(self.first, self.last + 1, step)
        low_text, dash, high_text = span.partition("-")
        low = self.number(low_text)
        high = self.number(high_text) if dash else (self.last if slash else low)
        if self.names is _WEEKDAY.names and dash and high == 0:
            high = 7  # fri-sun
        if high < low:
            raise self.wrong(f"{span!r} runs backwards; write it as two ranges")
        return range(low, high + 1, step)

    def number(self, text: str) -> int:
        """Parse a number or a name."""
        if text in self.names:
            return self.names.index(text) + (1 if self.names[0] == "jan" else 0)
        if not (text.isascii() and text.isdecimal() and len(text) < 4):
            words = " or a name" if self.names else ""
            raise self.wrong(f"{text!r} is not a number{words}")
        number = int(text)
        if not self.first <= number <= self.last:
            raise self.wrong(f"{number} is not between {self.first} and {self.last}")
        return number

    def wrong(self, what: str) -> InvalidCron:
        """Return an error for this field."""
        return InvalidCron(f"{self.name}: {what}")


_MINUTES = _Field("minute", 0, 59)
_HOURS = _Field("hour", 0, 23)
_DAYS = _Field("day of the month", 1, 31)
_MONTH = _Field("month", 1, 12, tuple(_MONTHS))
_WEEKDAY = _Field("day of the week", 0, 7, tuple(_WEEKDAYS))


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]  # as in the expression: Sunday is 0
    nth_weekdays: frozenset[tuple[int, int]]  # of the month, from 1; 0: the last
    either_day: bool
    by_elapsed_time: bool

    def after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """Return the first tick after a moment, in UTC; None if the calendar ends first."""
        try:
            if self.by_elapsed_time:
                return self._after_in_real_time(moment, zone)
            return self._after_by_the_clock(moment, zone)
        except OverflowError:
            return None

    def fits(self, local: datetime) -> bool:
        """Tell whether a local time matches all fields."""
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.month in self.months
            and self.fits_day(local.date())
        )

    def fits_day(self, day: date) -> bool:
        """Tell whether a day matches; its month does."""
        length = calendar.monthrange(day.year, day.month)[1]
        weekday = day.isoweekday() % 7
        by_date = day.day in self.days or (self.last_day and day.day == length)
        by_weekday = (
            weekday in self.weekdays
            or (weekday, (day.day + 6) // 7) in self.nth_weekdays
            or ((weekday, 0) in self.nth_weekdays and day.day + 7 > length)
        )
        return by_date or by_weekday if self.either_day else by_date and by_weekday

    def _after_by_the_clock(self, moment: datetime, zone: tzinfo) -> datetime | None:
        begin = moment.astimezone(zone).replace(tzinfo=None)
        for local in self._local_times(begin):
            found = _first_moment(local, zone)
            if found > moment:
                return found
        return None

    def _after_in_real_time(self, moment: datetime, zone: tzinfo) -> datetime | None:
        # Go from one period without a clock change to the next.
        begin = moment.replace(second=0, microsecond=0) + _MINUTE
        until = begin.replace(year=begin.year + _YEARS_AHEAD, day=min(begin.day, 28))
        while begin < until:
            offset = _offset(begin, zone)
            end = _end_of_stretch(begin, zone, offset)
            local = next(self._local_times((begin + offset).replace(tzinfo=None)), None)
            if local is None:
                return None
            found = local.replace(tzinfo=UTC) - offset
            if found < end:
                return found
            begin = end
            if end - moment > _DAY:
                # Times that the clock repeats from here on first occurred after `moment` and did
                # not match. So nothing matches before the days around the one that was found.
                begin = max(end, local.replace(tzinfo=UTC) - 3 * _DAY)
        return None

    def _local_times(self, begin: datetime) -> Iterator[datetime]:
        """Iterate over the local times that match, from `begin` on."""
        day = begin.date()
        last_year = day.year + _YEARS_AHEAD
        earliest = (begin.hour, begin.minute)
        if begin.second or begin.microsecond:
            earliest = (begin.hour, begin.minute + 1)
        while day.year <= last_year:
            if day.month not in self.months:
                day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
            elif not self.fits_day(day):
                day += _DAY
            else:
                midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a local time
                for hour in self.hours:
                    if hour >= earliest[0]:
                        for minute in self.minutes:
                            if (hour, minute) >= earliest:
                                yield midnight.replace(hour=hour, minute=minute)
                day += _DAY
            earliest = (0, 0)


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _end_of_stretch(begin: datetime, zone: tzinfo, offset: timedelta) -> datetime:
    """Return the first minute at which the clock has changed, or one day on if it has not."""
    end = begin + _DAY
    if _offset(end, zone) == offset:
        return end
    return _change_between(begin, end, zone)


def _change_between(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """Return the minute in which the clock changes between two moments."""
    offset = _offset(low, zone)
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high


def _first_moment(local: datetime, zone: tzinfo) -> datetime:
    """Return the first occurrence of a local time, or the end of the gap that skips it."""
    moment = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local:
        return moment
    # In a gap, fold=0 uses the offset before it and lands after the gap; fold=1 lands before it.
    return _change_between(local.replace(tzinfo=zone, fold=1).astimezone(UTC), moment, zone)


@lru_cache(maxsize=1024)
def read_cron(text: str) -> Cron:
    """Parse an expression; raises InvalidCron, which names the field."""
    words = text.lower().split()
    if len(text) > _LONGEST:
        raise InvalidCron(f"an expression has at most {_LONGEST} characters")
    if len(words) == 1 and words[0].startswith("@"):
        if words[0] not in SHORTHANDS:
            raise InvalidCron(f"{words[0]!r} is not one of {', '.join(SHORTHANDS)}")
        words = SHORTHANDS[words[0]].split()
    if len(words) != 5:
        raise InvalidCron(
            "an expression has five fields (minute, hour, day of the month, month, day of the "
            f"week), not {len(words)}"
        )
    minute, hour, day, month, weekday = words
    parts = day.split(",")
    dates = ",".join(part for part in parts if part != "l")
    weekdays, nth = _read_weekdays(weekday)
    cron = Cron(
        minutes=tuple(sorted(_MINUTES.read(minute))),
        hours=tuple(sorted(_HOURS.read(hour))),
        days=_DAYS.read(dates) if dates else frozenset(),
        last_day="l" in parts,
        months=_MONTH.read(month),
        weekdays=weekdays,
        nth_weekdays=nth,
        either_day=not day.startswith("*") and not weekday.startswith("*"),
        by_elapsed_time=minute.startswith("*") or hour.startswith("*"),
    )
    if next(cron._local_times(datetime(2000, 1, 1)), None) is None:  # noqa: DTZ001 - any day
        raise _DAYS.wrong("no month that is named has such a day")
    return cron


def _read_weekdays(text: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    plain, nth = [], set()
    for part in text.split(","):
        day, hash_, number = part.partition("#")
        if hash_:
            if number not in ("1", "2", "3", "4", "5"):
                raise _WEEKDAY.wrong(f"{part!r}: behind # stands a number from 1 to 5")
            nth.add((_WEEKDAY.number(day) % 7, int(number)))
        elif part.endswith("l") and len(part) > 1:
            nth.add((_WEEKDAY.number(part[:-1]) % 7, 0))
        else:
            plain.append(part)
    numbers = _WEEKDAY.read(",".join(plain)) if plain else frozenset()
    return frozenset(number % 7 for number in numbers), frozenset(nth)
