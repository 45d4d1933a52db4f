from __future__ import annotations

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.flow import (
    MAX_CONSTANTS,
    MAX_DATA_VALUES,
    MAX_LISTED_COPIES,
    MAX_VALUES,
    Flow,
)


class RecordingFlow(Flow):
    """Records the values that its subscribers get."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[tuple[str, int]] = []

    def receive(self, value: int, name: str) -> None:
        self.received.append((name, value))

    def listen(self, var: int, name: str) -> None:
        self.subscribe(var, self.receive, name)

    def functions(self, count: int) -> list[int]:
        return [self.make(kinds.FUNCTION, index) for index in range(count)]


def test_value_follows_copies_and_is_delivered_once() -> None:
    flow = RecordingFlow()
    first, second, third = (flow.new_var() for _ in range(3))
    flow.listen(third, "third")
    for _ in range(2):
        flow.copy(first, second)
        flow.copy(second, third)
        flow.copy(third, first)
    one, other = flow.functions(2)
    for value in (one, other, one):
        flow.add(first, value)
    flow.run()
    flow.listen(first, "first")
    flow.run()
    assert [set(flow.values_of(var)) for var in (first, second, third)] == [{one, other}] * 3
    assert sorted(flow.received) == [
        ("first", one),
        ("first", other),
        ("third", one),
        ("third", other),
    ]


def test_order_of_values_does_not_depend_on_their_number() -> None:
    for count in range(1, MAX_VALUES):
        flow = RecordingFlow()
        values = flow.functions(100)[:-count:-1]
        source, target = flow.new_var(), flow.new_var()
        for value in values:
            flow.add(source, value)
        flow.run()
        flow.copy(source, target)
        flow.listen(source, "all")
        flow.run()
        assert [value for _, value in flow.received] == list(set(values))
        assert set(flow.values_of(target)) == set(values)


def test_late_subscriber_gets_the_values_that_are_there() -> None:
    flow = RecordingFlow()
    var, (one, other) = flow.new_var(), flow.functions(2)
    flow.listen(var, "alone")
    flow.add(var, one)
    flow.run()
    assert flow.received == [("alone", one)]
    flow.listen(var, "second")
    flow.add(var, other)
    flow.run()
    assert flow.received[1:] == [("second", one), ("alone", other), ("second", other)]


def test_each_of_many_copies_is_added_once() -> None:
    flow = RecordingFlow()
    source = flow.new_var()
    targets = [flow.new_var() for _ in range(20 * MAX_LISTED_COPIES)]
    assert [flow.add_copy(source, target) for target in 2 * targets].count(True) == len(targets)
    (value,) = flow.functions(1)
    flow.add(source, value)
    flow.run()
    assert all(list(flow.values_of(target)) == [value] for target in targets)


def test_overflow_makes_a_variable_and_its_copies_unknown() -> None:
    flow = RecordingFlow()
    hub, after, apart, late = (flow.new_var() for _ in range(4))
    flow.copy(hub, after)
    for value in flow.functions(MAX_VALUES):
        flow.add(hub, value)
    flow.run()
    assert len(flow.values_of(after)) == MAX_VALUES
    flow.listen(after, "after")
    flow.run()
    received = len(flow.received)

    value = flow.functions(MAX_VALUES + 1)[-1]
    flow.add(hub, value)
    flow.add(apart, value)
    flow.copy(apart, after)
    flow.copy(after, late)
    flow.listen(hub, "hub")
    flow.run()
    assert all(flow.is_unknown(var) for var in (hub, after, late))
    assert not any(flow.is_empty(var) for var in (hub, after, late))
    assert not any(flow.values_of(var) for var in (hub, after, late))
    assert len(flow.received) == received
    assert list(flow.values_of(apart)) == [value]


def test_overflowing_variable_sends_little_before() -> None:
    flow = RecordingFlow()
    hub = flow.new_var()
    flow.listen(hub, "hub")
    starts = []
    for distance, _ in enumerate(flow.functions(MAX_VALUES + 1)):
        # Each value has a longer way than the one before.
        starts.append(var := flow.new_var())
        for _ in range(distance):
            var, before = flow.new_var(), var
            flow.copy(before, var)
        flow.copy(var, hub)
    for start, value in zip(starts, flow.functions(MAX_VALUES + 1), strict=True):
        flow.add(start, value)
    flow.run()
    assert flow.is_unknown(hub)
    assert len(flow.received) == 1


def test_many_texts_become_some_text() -> None:
    flow = RecordingFlow()
    var = flow.new_var()
    for number in range(2 * MAX_DATA_VALUES):
        flow.add(var, flow.make(kinds.CONSTANT, f"text {number}"))
    found = sorted(flow.kind[value] for value in flow.values_of(var))
    assert found == [kinds.CONSTANT] * MAX_CONSTANTS + [kinds.TYPED]
    for number in range(2 * MAX_DATA_VALUES):
        flow.add(var, flow.make(kinds.CONTAINER, number))
    assert len(flow.values_of(var)) == MAX_DATA_VALUES
    assert not flow.is_unknown(var)
