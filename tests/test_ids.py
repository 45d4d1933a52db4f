import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from coatcheck.clock import SystemClock
from coatcheck.ids import ULID_LENGTH, UlidGenerator, first_ulid_at, is_ulid, ulid_time


class SetClock(SystemClock):
    """A clock that shows what it is set to."""

    def __init__(self, now: int) -> None:
        self.time = now

    def now(self) -> int:
        return self.time


def test_a_ulid_carries_its_time() -> None:
    new_id = UlidGenerator(SetClock(1_700_000_000_123))
    ulid = new_id()
    assert is_ulid(ulid)
    assert ulid_time(ulid) == 1_700_000_000_123


def test_the_encoding_is_that_of_the_specification() -> None:
    # The example of the ULID specification: its first ten letters are this time.
    assert ulid_time("01ARYZ6S41TSV4RRFFQ69G5FAV") == 1_469_918_176_385
    assert first_ulid_at(1_469_918_176_385) == "01ARYZ6S410000000000000000"


def test_later_is_larger() -> None:
    clock = SetClock(1_000)
    new_id = UlidGenerator(clock)
    made = []
    for clock.time in (1_000, 1_001, 1_031, 1_032, 2_000_000, 10**12):
        made.append(new_id())
    assert made == sorted(made)
    assert [ulid_time(ulid) for ulid in made] == [1_000, 1_001, 1_031, 1_032, 2_000_000, 10**12]


def test_within_a_millisecond_they_count_up() -> None:
    new_id = UlidGenerator(SetClock(5_000))
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {ulid_time(ulid) for ulid in made} == {5_000}


def test_a_clock_that_steps_back_does_not_turn_the_order() -> None:
    clock = SetClock(9_000)
    new_id = UlidGenerator(clock)
    made = [new_id()]
    for clock.time in (8_000, 8_500, 0, 8_999, 9_000):
        made.append(new_id())
    assert made == sorted(set(made))
    assert {ulid_time(ulid) for ulid in made} == {9_000}
    clock.time = 9_001
    assert ulid_time(new_id()) == 9_001


def test_threads_never_get_the_same_one_and_each_sees_them_rise() -> None:
    new_id = UlidGenerator()
    start = threading.Barrier(8)

    def make(_: int) -> list[str]:
        start.wait()
        return [new_id() for _ in range(5_000)]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    for one in made:
        assert one == sorted(one)
    assert len({ulid for one in made for ulid in one}) == 40_000


def test_two_generators_do_not_collide() -> None:
    one, other = UlidGenerator(SetClock(7)), UlidGenerator(SetClock(7))
    assert {one() for _ in range(1_000)}.isdisjoint({other() for _ in range(1_000)})


def test_the_first_of_a_millisecond_is_a_lower_bound() -> None:
    clock = SetClock(77_000)
    new_id = UlidGenerator(clock)
    assert first_ulid_at(77_000) <= new_id() < first_ulid_at(77_001)
    assert ulid_time(first_ulid_at(77_000)) == 77_000


@pytest.mark.parametrize("time", [0, 1, 31, 32, 1023, 1024, 2**48 - 1])
def test_every_time_that_fits_survives(time: int) -> None:
    assert ulid_time(first_ulid_at(time)) == time
    assert len(first_ulid_at(time)) == ULID_LENGTH


def test_what_was_made_since_before_the_epoch_is_everything() -> None:
    assert first_ulid_at(-1) <= first_ulid_at(0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "r_42",
        "01ARYZ6S41TSV4RRFFQ69G5FA",
        "01ARYZ6S41TSV4RRFFQ69G5FAVV",
        "01aryz6s41tsv4rrffq69g5fav",
        "81ARYZ6S41TSV4RRFFQ69G5FAV",
        "01ARYZ6S41TSV4RRFFQ69G5FAI",
        "01ARYZ6S41TSV4RRFFQ69G5FAÜ",
        " 1ARYZ6S41TSV4RRFFQ69G5FAV",
    ],
)
def test_what_is_not_a_ulid(text: str) -> None:
    assert not is_ulid(text)


def test_what_is_a_ulid() -> None:
    assert is_ulid("01ARYZ6S41TSV4RRFFQ69G5FAV")
    assert is_ulid("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
    assert is_ulid("00000000000000000000000000")
