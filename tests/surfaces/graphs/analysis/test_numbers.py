"""What the flow keeps in arrays, beside what Python would keep."""

from __future__ import annotations

from random import Random

import pytest

from coatcheck.surfaces.graphs.analysis.python.known import Known
from coatcheck.surfaces.graphs.analysis.python.runs import Runs
from coatcheck.surfaces.graphs.analysis.python.sites import Sites
from coatcheck.surfaces.graphs.analysis.python.words import Words


@pytest.mark.parametrize("code", ["i", "q"])
def test_runs_grow_and_go_without_getting_in_each_others_way(code: str) -> None:
    random, runs = Random(1), Runs(code)
    expected: dict[int, list[int]] = {}
    for number in range(5_000):
        if expected and random.random() < 0.7:
            run = random.choice(list(expected))
            numbers = expected.pop(run)
            if random.random() < 0.1:
                runs.drop(run)
            else:
                expected[runs.append(run, number)] = [*numbers, number]
        else:
            expected[runs.start(number, -number)] = [number, -number]
    assert {run: list(runs.of(run)) for run in expected} == expected


def test_room_that_was_left_is_used_again() -> None:
    runs = Runs()
    for _ in range(3):
        run = runs.start(1, 2)
        for number in range(100):
            run = runs.append(run, number)
        runs.drop(run)
    assert len(runs.numbers) < 300


def test_known_numbers_are_new_once() -> None:
    random = Random(1)
    seen, known = {7}, Known([7])
    for _ in range(5_000):
        number = random.randrange(1, 2_000)
        assert known.add(number) == (number not in seen)
        seen.add(number)


def test_a_word_has_one_number() -> None:
    words = Words()
    numbers = [words[word] for word in ("a", 1, "1", None, "a", 1)]
    assert numbers == [0, 1, 2, 3, 0, 1]
    assert words.at == ["a", 1, "1", None]


def test_a_call_is_given_back_as_it_was_written() -> None:
    sites = Sites(Words())
    bare = sites.new(1, (), (), 2, 3)
    full = sites.new(4, (5, -6, 0), (("key", 7), (None, 8)), 9, 10, 11)
    like = sites.like(full, 12)
    assert sites.at(bare.number) == bare
    assert sites.at(full.number) == full
    assert sites.at(like.number) == like == full._replace(number=2, result=12)
    assert [sites.callee(site.number) for site in (bare, full, like)] == [0, 11, 0]


def test_a_call_calls_each_value_and_each_method_once() -> None:
    sites = Sites(Words())
    number = sites.add(1, (), (), 2, 3)
    called = [sites.applies(number, value % 20) for value in range(60)]
    assert called == [True] * 20 + [False] * 40
    assert [sites.applies_method(number, 5, name) for name in ("__str__", "__repr__")] == [True] * 2
    assert not sites.applies_method(number, 5, "__str__")
    assert not sites.applies(number, 5)


def test_the_edges_of_calls_come_in_the_order_that_they_were_found() -> None:
    sites = Sites(Words())
    first, second = (sites.add(1, (), (), runner, 3, 4) for runner in (5, 6))
    for number, target in ((second, "os.path"), (first, 7), (second, 8), (second, 9), (second, 8)):
        sites.edge(number, target)
    expected = [(4, 6, 3, "os.path"), (4, 6, 3, 8), (4, 6, 3, 9), (4, 5, 3, 7)]
    assert list(sites.edges()) == expected
