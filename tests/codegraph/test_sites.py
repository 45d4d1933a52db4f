"""Calls: as they were written, and what they call."""

from __future__ import annotations

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.words import Words
from coatcheck.codegraph.python.call_sites import Sites


def make_sites() -> Sites:
    disk = Disk()
    return Sites(disk, Words(disk))


def test_a_call_is_given_back_as_it_was_written() -> None:
    sites = make_sites()
    bare = sites.new(1, (), (), 2, 3)
    full = sites.new(4, (5, -6, 0), (("key", 7), (None, 8)), 9, 10, 11)
    like = sites.like(full, 12)
    assert sites.at(bare.number) == bare
    assert sites.at(full.number) == full
    assert sites.at(like.number) == like == full._replace(number=2, result=12)
    assert [sites.callee(site.number) for site in (bare, full, like)] == [0, 11, 0]


def test_a_call_calls_each_value_and_each_method_once() -> None:
    sites = make_sites()
    number = sites.add(1, (), (), 2, 3)
    called = [sites.applies(number, value % 20) for value in range(60)]
    assert called == [True] * 20 + [False] * 40
    assert [sites.applies_method(number, 5, name) for name in ("__str__", "__repr__")] == [True] * 2
    assert not sites.applies_method(number, 5, "__str__")
    assert not sites.applies(number, 5)


def test_the_edges_of_calls_come_in_the_order_that_they_were_found() -> None:
    sites = make_sites()
    first, second = (sites.add(1, (), (), runner, 3, 4) for runner in (5, 6))
    for number, target in ((second, "os.path"), (first, 7), (second, 8), (second, 9), (second, 8)):
        sites.edge(number, target)
    expected = [(4, 6, 3, "os.path"), (4, 6, 3, 8), (4, 6, 3, 9), (4, 5, 3, 7)]
    assert list(sites.edges()) == expected


def test_a_declaration_is_one_alone() -> None:
    sites = make_sites()
    first, second = (sites.add(1, (), (), 2, 3) for _ in range(2))
    sites.silence(second)
    assert [sites.is_silent(number) for number in (first, second)] == [False, True]
