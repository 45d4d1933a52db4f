"""What is kept in columns, beside what Python would keep."""

from __future__ import annotations

import errno
import os
from collections import deque
from random import Random
from typing import Literal

import pytest

from coatcheck.codegraph.collector import without_collecting
from coatcheck.codegraph.disk import column as columns
from coatcheck.codegraph.disk.column import Disk, NoRoomError
from coatcheck.codegraph.disk.lately import CachedRead
from coatcheck.codegraph.disk.queues import Queue, Rows
from coatcheck.codegraph.disk.runs import IntLists
from coatcheck.codegraph.disk.shelf import Shelf
from coatcheck.codegraph.disk.tables import Keys, Table
from coatcheck.codegraph.disk.words import Words
from tests.codegraph.test_letting_go import mapped

MANY = 50_000  # more than is kept in memory


@pytest.mark.parametrize("code", ["B", "i", "q"])
def test_a_column_keeps_its_numbers_as_it_grows(code: Literal["B", "i", "q"]) -> None:
    column = Disk().column(code)
    for number in range(MANY):
        column.append(number % 256)
    start = column.extend([1, 2, 3])
    assert start == MANY
    assert column.numbers[: column.count].tolist() == [n % 256 for n in range(MANY)] + [1, 2, 3]


def test_a_column_begins_with_nothing_and_so_does_room_that_is_added() -> None:
    column = Disk().column("i", MANY)
    assert column.add(MANY) == MANY
    assert not any(column.numbers[: column.count])


def test_few_numbers_are_in_no_file_and_many_in_one_that_goes_with_them() -> None:
    with without_collecting():
        disk, before = Disk(), mapped()
        column = disk.column()
        column.append(1)
        assert mapped() == before
        column.add(MANY)
        assert mapped() > before
        del column
        assert mapped() == before


def test_what_is_handed_back_to_the_kernel_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    column, slots = disk.column(), disk.column("q", MANY)
    for number in range(MANY):
        column.append(number)
        slots.numbers[number] = -number
    monkeypatch.setattr(columns, "RESIDENT", 0)
    before = disk.resident
    disk.breathe()
    assert disk.resident < before
    assert column.numbers[:MANY].tolist() == list(range(MANY))
    assert slots.numbers[:MANY].tolist() == [-number for number in range(MANY)]


def test_columns_take_up_no_more_of_the_disk_than_they_may() -> None:
    disk = Disk(largest=1_000_000)
    column = disk.column("i", 200_000)
    with pytest.raises(NoRoomError, match="more than 1 MB of the disk"):
        disk.column("i", 200_000)
    del column
    assert disk.column("i", 200_000).count == 200_000
    with pytest.raises(NoRoomError, match="more than 1 MB of the disk"):
        Shelf(disk).put(bytes(1_000_001))


def test_a_disk_without_room_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoRoomError, match="finds no room on the disk"):
        Disk().column("i", MANY)


@pytest.mark.parametrize("code", ["i", "q"])
def test_runs_grow_and_go_without_getting_in_each_others_way(code: Literal["i", "q"]) -> None:
    random, runs = Random(1), IntLists(Disk(), code)
    expected: dict[int, list[int]] = {}
    for number in range(5_000):
        if expected and random.random() < 0.7:
            run = random.choice(list(expected))
            numbers = expected.pop(run)
            if random.random() < 0.1:
                runs.drop(run)
            else:
                expected[runs.append(run, number)] = [*numbers, number]
        elif random.random() < 0.5:
            expected[runs.append(0, number)] = [number]
        else:
            expected[runs.start(number, -number)] = [number, -number]
    assert {run: runs.of(run) for run in expected} == expected
    assert {run: runs.count(run) for run in expected} == {
        run: len(numbers) for run, numbers in expected.items()
    }
    assert (runs.of(0), runs.count(0)) == ([], 0)


def test_room_that_was_left_is_used_again() -> None:
    runs = IntLists(Disk())
    for _ in range(3):
        run = runs.start(1, 2)
        for number in range(100):
            run = runs.append(run, number)
        runs.drop(run)
    assert runs.size < 300


@pytest.mark.parametrize("width", [1, 2, 3])
def test_keys_are_numbered_as_they_come(width: int) -> None:
    random, keys = Random(width), Keys(Disk(), width)
    expected: dict[tuple[int, ...], int] = {}
    for _ in range(20_000):
        key = tuple(random.randrange(-20, 20) for _ in range(width))
        assert keys.find(key) == expected.get(key, 0)
        is_new = key not in expected
        number = expected.setdefault(key, len(expected) + 1)
        if random.random() < 0.5:
            assert keys.add(key) == is_new
        assert keys.number(key) == number
    assert keys.count == len(expected)
    assert {keys.key(number): number for number in range(1, keys.count + 1)} == expected


def test_a_table_is_a_dict() -> None:
    random, table = Random(1), Table(Disk(), 2)
    expected: dict[tuple[int, ...], int] = {}
    for value in range(20_000):
        key = (random.randrange(100), random.randrange(100))
        assert table.get(*key) == expected.get(key)
        if value % 2:
            assert table.put(key, value) == expected.get(key)
            expected[key] = value
        else:
            found = table.get_or_make(key, lambda value=value: value)  # type: ignore[misc]
            is_new = key not in expected
            assert found == (expected.setdefault(key, value), is_new)


WORDS: list[int | str | None] = [
    "a",
    1,
    "1",
    None,
    "",
    0,
    -1,
    "ä",
    "\ud800",
    16**5_000,
    "0x1",
    "i0x1",
]


def test_a_word_has_one_number_and_is_itself() -> None:
    words = Words(Disk())
    assert [words[word] for word in [*WORDS, *WORDS]] == 2 * list(range(len(WORDS)))
    words.clear()
    words.at.clear()
    assert [words[word] for word in WORDS] == list(range(len(WORDS)))
    assert [words.at[number] for number in range(len(WORDS))] == WORDS
    assert words.count == len(WORDS)


def test_many_words_are_found_again() -> None:
    words = Words(Disk())
    for number in range(MANY):
        assert words[f"word {number}"] == number
    for number in range(0, MANY, 7):
        assert words[f"word {number}"] == number
        assert words.at[number] == f"word {number}"


def test_who_waits_longest_comes_first() -> None:
    random, queue = Random(1), Queue(Disk())
    expected: deque[int] = deque()
    for number in range(4 * MANY):
        # First many more come than go, then the other way round.
        if random.random() < (0.8 if number < MANY else 0.4):
            queue.append(number)
            expected.append(number)
        elif expected:
            assert queue.front or queue.fill()
            assert queue.front.popleft() == expected.popleft()
        if not number % 100:
            queue.breathe()
    while expected:
        assert queue.front or queue.fill()
        assert queue.front.popleft() == expected.popleft()
    assert not queue.front
    assert not queue.fill()


def test_rows_come_in_their_order() -> None:
    rows = Rows(Disk(), 3)
    for number in range(MANY):
        rows.append(number, -number, 7)
    assert list(rows) == [(number, -number, 7) for number in range(MANY)]


def test_a_shelf_gives_back_what_was_put_on_it() -> None:
    shelf = Shelf(Disk())
    contents = [bytes([number % 256]) * (number % 5_000) for number in range(1_000)]
    assert [shelf.put(content) for content in contents] == list(range(1_000))
    assert shelf.count == 1_000
    assert [shelf.get(number) for number in (999, *range(1_000))] == [contents[999], *contents]


def test_what_was_read_lately_is_not_read_again_and_is_not_much() -> None:
    reads: list[int] = []

    def read(number: int) -> int:
        reads.append(number)
        return -number

    lately = CachedRead(read)
    lately.most = 3
    assert [lately[number] for number in (1, 2, 1, 3, 3)] == [-1, -2, -1, -3, -3]
    assert reads == [1, 2, 3]
    assert lately[4] == -4
    assert len(lately) == 1
