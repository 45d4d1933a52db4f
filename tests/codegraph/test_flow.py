from __future__ import annotations

from coatcheck.codegraph.python.flow import (
    MANY_COPIES,
    MOST_CONSTANTS,
    WIDEST,
    WIDEST_DATA,
    Flow,
)
from coatcheck.codegraph.python.objects import ObjectKind


class Watched(Flow):
    """Writes down what its watcher is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, int]] = []
        self.names: list[str] = []

    def note(self, value: int, data: tuple[int]) -> None:
        self.told.append((self.names[data[0]], value))

    def tell(self, place: int, name: str) -> None:
        self.names.append(name)
        self.watch(place, self.note, (len(self.names) - 1,))

    def functions(self, count: int) -> list[int]:
        return [self.objects.make(ObjectKind.FUNCTION, index) for index in range(count)]


def test_a_value_goes_along_copies_and_is_told_once() -> None:
    flow = Watched()
    first, second, third = (flow.place() for _ in range(3))
    flow.tell(third, "third")
    for _ in range(2):
        flow.copy(first, second)
        flow.copy(second, third)
        flow.copy(third, first)
    one, other = flow.functions(2)
    for value in (one, other, one):
        flow.add(first, value)
    flow.run()
    flow.tell(first, "first")
    flow.run()
    assert [set(flow.held(place)) for place in (first, second, third)] == [{one, other}] * 3
    assert sorted(flow.told) == [("first", one), ("first", other), ("third", one), ("third", other)]


def test_few_values_and_many_go_on_in_the_same_order() -> None:
    for count in range(1, WIDEST):
        flow = Watched()
        values = flow.functions(100)[:-count:-1]
        source, target = flow.place(), flow.place()
        for value in values:
            flow.add(source, value)
        flow.run()
        flow.copy(source, target)
        flow.tell(source, "all")
        flow.run()
        assert [value for _, value in flow.told] == list(set(values))
        assert set(flow.held(target)) == set(values)


def test_watchers_are_told_in_their_order_and_late_ones_of_what_was_there() -> None:
    flow = Watched()
    place, (one, other) = flow.place(), flow.functions(2)
    flow.tell(place, "alone")
    flow.add(place, one)
    flow.run()
    assert flow.told == [("alone", one)]
    flow.tell(place, "second")
    flow.add(place, other)
    flow.run()
    assert flow.told[1:] == [("second", one), ("alone", other), ("second", other)]


def test_many_copies_from_one_place_are_each_made_once() -> None:
    flow = Watched()
    source = flow.place()
    targets = [flow.place() for _ in range(20 * MANY_COPIES)]
    assert [flow.copy_once(source, target) for target in 2 * targets].count(True) == len(targets)
    (value,) = flow.functions(1)
    flow.add(source, value)
    flow.run()
    assert all(list(flow.held(target)) == [value] for target in targets)


def test_what_may_be_too_much_is_unknown_and_so_is_what_it_is_sent_on_to() -> None:
    flow = Watched()
    hub, after, apart, late = (flow.place() for _ in range(4))
    flow.copy(hub, after)
    for value in flow.functions(WIDEST):
        flow.add(hub, value)
    flow.run()
    assert len(flow.held(after)) == WIDEST
    flow.tell(after, "after")
    flow.run()
    told = len(flow.told)

    value = flow.functions(WIDEST + 1)[-1]
    flow.add(hub, value)
    flow.add(apart, value)
    flow.copy(apart, after)
    flow.copy(after, late)
    flow.tell(hub, "hub")
    flow.run()
    assert all(flow.is_unknown(place) for place in (hub, after, late))
    assert not any(flow.is_empty(place) for place in (hub, after, late))
    assert not any(flow.held(place) for place in (hub, after, late))
    assert len(flow.told) == told
    assert list(flow.held(apart)) == [value]


def test_a_place_that_becomes_unknown_has_handed_on_little_before() -> None:
    flow = Watched()
    hub = flow.place()
    flow.tell(hub, "hub")
    starts = []
    for distance, _ in enumerate(flow.functions(WIDEST + 1)):
        # Each comes from further away than the one before.
        starts.append(place := flow.place())
        for _ in range(distance):
            place, before = flow.place(), place
            flow.copy(before, place)
        flow.copy(place, hub)
    for start, value in zip(starts, flow.functions(WIDEST + 1), strict=True):
        flow.add(start, value)
    flow.run()
    assert flow.is_unknown(hub)
    assert len(flow.told) == 1


def test_a_place_holds_few_texts_and_then_some_text() -> None:
    flow = Watched()
    place = flow.place()
    for number in range(2 * WIDEST_DATA):
        flow.add(place, flow.objects.make(ObjectKind.CONSTANT, f"text {number}"))
    kinds = sorted(flow.objects.kind[value] for value in flow.held(place))
    assert kinds == [ObjectKind.CONSTANT] * MOST_CONSTANTS + [ObjectKind.TYPED]
    for number in range(2 * WIDEST_DATA):
        flow.add(place, flow.objects.make(ObjectKind.CONTAINER, number))
    assert len(flow.held(place)) == WIDEST_DATA
    assert not flow.is_unknown(place)
