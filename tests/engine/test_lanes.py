"""Who may have how many calls under way, whatever receivers do."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.engine.webhooks.concurrency import (
    AT_ONCE,
    FOR_FIRST_CALLS,
    KNOWN_S,
    MOST_KNOWN,
    DeliverySlot,
    DeliverySlots,
    ReceiverHealth,
)
from coatcheck.store.webhooks import DeliveryLane


class ToldClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> int:
        return round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def lane(name: str, tenant: str = "a", due_at: int = 0, *, tried: bool = False) -> DeliveryLane:
    return DeliveryLane(name, tenant, due_at, tried)


def many(count: int, tenant: str = "a", first: int = 0) -> list[DeliveryLane]:
    return [lane(f"{tenant}-{n}", tenant, n) for n in range(first, first + count)]


def fill(lanes: DeliverySlots, due: list[DeliveryLane]) -> list[DeliverySlot]:
    """Begin all the calls there is room for; they are silent."""
    begun: list[DeliverySlot] = []
    while allotted := lanes.allot(due):
        for place, count in allotted.items():
            for _ in range(count):
                lanes.take(place)
                begun.append(place)
    return begun


def counted(lanes: DeliverySlots, due: list[DeliveryLane]) -> dict[str, int]:
    return {place.lane: count for place, count in lanes.allot(due).items()}


def test_a_lane_has_one_call_until_a_message_is_taken() -> None:
    lanes = DeliverySlots(ToldClock())
    [place] = fill(lanes, [lane("x")])
    assert place == DeliverySlot("x", "a", ReceiverHealth.NEW)
    lanes.learn("x", taken=True)
    assert lanes.leave(place), "it is looked at again"
    assert counted(lanes, [lane("x")]) == {"x": 32}


def test_a_lane_is_back_to_one_when_a_message_is_not_taken() -> None:
    lanes = DeliverySlots(ToldClock())
    lanes.learn("x", taken=True)
    begun = fill(lanes, [lane("x")])
    assert len(begun) == 32
    lanes.learn("x", taken=False)
    for place in begun[1:]:
        lanes.leave(place)
        assert not lanes.allot([lane("x")])
    lanes.leave(begun[0])
    assert lanes.allot([lane("x")]) == {DeliverySlot("x", "a", ReceiverHealth.FAILING): 1}


def test_a_lane_is_filled_up_when_it_is_half_empty() -> None:
    lanes = DeliverySlots(ToldClock())
    lanes.learn("x", taken=True)
    begun = fill(lanes, [lane("x")])
    looks = [lanes.leave(place) for place in begun[:15]]
    assert not any(looks)
    assert lanes.allot([lane("x")]) == {}
    assert lanes.leave(begun[15])
    assert counted(lanes, [lane("x")]) == {"x": 16}


def test_what_was_tried_by_another_process_is_taken_for_failing() -> None:
    lanes = DeliverySlots(ToldClock())
    [(place, count)] = lanes.allot([lane("x", tried=True)]).items()
    assert (place.standing, count) == (ReceiverHealth.FAILING, 1)


def test_new_ones_find_room_beside_any_number_that_fail() -> None:
    lanes = DeliverySlots(ToldClock())
    failing = [each._replace(tried=True) for each in many(1_000)]
    assert len(fill(lanes, failing)) == 25
    assert len(fill(lanes, many(1_000, first=1_000))) == 40
    lanes.learn("proven", taken=True)
    assert counted(lanes, [*failing, *many(2_000), lane("proven")]) == {"proven": 32}


def test_those_that_answer_come_first_and_the_longest_due_before_others() -> None:
    lanes = DeliverySlots(ToldClock())
    lanes.learn("a-99", taken=True)
    due = many(100)[::-1]
    given = [place.lane for place in lanes.allot(due)]
    assert given[0] == "a-99"
    assert given[1:] == [f"a-{n}" for n in range(len(given) - 1)]


def test_tenants_take_turns() -> None:
    lanes = DeliverySlots(ToldClock())
    due = [*many(500, "a"), *many(500, "b")]
    by_tenant = [place.tenant for place in lanes.allot(due)]
    assert by_tenant.count("a") == by_tenant.count("b") > 30


def test_a_tenant_alone_has_less_than_half_of_all() -> None:
    lanes = DeliverySlots(ToldClock())
    for each in many(200):
        lanes.learn(each.name, taken=True)
    assert len(fill(lanes, many(200))) == (AT_ONCE - FOR_FIRST_CALLS) / 2


def test_a_lane_that_has_many_leaves_some_for_another_of_its_tenant() -> None:
    lanes = DeliverySlots(ToldClock())
    for each in many(21):
        lanes.learn(each.name, taken=True)
    for each in many(20):  # one after the other, so that the first get what they like
        fill(lanes, [each])
    assert counted(lanes, many(21))["a-20"] == 1


def test_whoever_is_held_back_looks_again_when_a_call_of_its_share_ends() -> None:
    lanes = DeliverySlots(ToldClock())
    for each in many(8):
        lanes.learn(each.name, taken=True)
    begun = fill(lanes, many(8))
    assert lanes.leave(begun[0])
    assert counted(lanes, many(8)) == {begun[0].lane: 1}


def test_whoever_is_held_back_by_others_looks_again_when_there_is_twice_the_room() -> None:
    lanes = DeliverySlots(ToldClock())
    for each in [*many(4), *many(200, "b")]:
        lanes.learn(each.name, taken=True)
    begun = fill(lanes, many(4))
    had = len(fill(lanes, many(200, "b")))
    assert had < 200
    ended = 1
    while not lanes.leave(begun[-ended]):
        ended += 1
    assert 1 < ended < len(begun)
    assert len(lanes.allot(many(200, "b"))) > 1


SORTS = st.sampled_from(["new", "answering", "failing"])


@given(
    crowd=st.lists(st.tuples(SORTS, st.integers(1, 300)), min_size=1, max_size=12),
    sort=SORTS,
)
@settings(deadline=None)
def test_whatever_some_tenants_do_another_finds_a_place(
    crowd: list[tuple[str, int]], sort: str
) -> None:
    """They come one after the other, with as many lanes as they like, and stay silent."""
    lanes = DeliverySlots(ToldClock())
    for number, (kind, count) in enumerate(crowd):
        due = many(count, f"tenant-{number}")
        if kind != "new":
            for each in due:
                lanes.learn(each.name, taken=kind == "answering")
        fill(lanes, due)
    if sort != "new":
        lanes.learn("x", taken=sort == "answering")
    assert counted(lanes, [*many(300, "tenant-0"), lane("x", "other")]).get("x", 0) >= 1


@given(
    waiting=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5)), min_size=1, max_size=3),
    chance=st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=30)
def test_whoever_was_held_back_gets_a_place_in_the_end(
    waiting: list[tuple[int, int]], chance: random.Random
) -> None:
    """Calls end in any order, with any answer, and it is looked only when that is asked for."""
    lanes = DeliverySlots(ToldClock())
    left = {
        each: messages
        for tenant, (count, messages) in enumerate(waiting)
        for each in many(count, str(tenant))
    }
    in_progress: list[DeliverySlot] = []

    def look() -> None:
        began = -1
        while began != len(in_progress):
            began = len(in_progress)
            due = {each.name: each for each, count in left.items() if count}
            for place, most in lanes.allot(due.values()).items():
                for _ in range(min(most, left[due[place.lane]])):
                    left[due[place.lane]] -= 1
                    lanes.take(place)
                    in_progress.append(place)
            assert len(in_progress) <= AT_ONCE

    look()
    while in_progress:
        place = in_progress.pop(chance.randrange(len(in_progress)))
        lanes.learn(place.lane, taken=chance.random() < 0.7)
        if lanes.leave(place):
            look()
    assert not any(left.values())


def test_what_is_known_is_forgotten_after_an_hour_and_where_it_is_very_much() -> None:
    clock = ToldClock()
    lanes = DeliverySlots(clock)
    lanes.learn("old", taken=True)
    clock.seconds += KNOWN_S - 1
    lanes.learn("newer", taken=False)
    standings = {place.lane: place.standing for place in lanes.allot([lane("old"), lane("newer")])}
    assert standings == {"old": ReceiverHealth.ANSWERING, "newer": ReceiverHealth.FAILING}
    clock.seconds += 1
    standings = {place.lane: place.standing for place in lanes.allot([lane("old"), lane("newer")])}
    assert standings == {"old": ReceiverHealth.NEW, "newer": ReceiverHealth.FAILING}
    for number in range(MOST_KNOWN):
        lanes.learn(f"other-{number}", taken=True)
    assert [place.standing for place in lanes.allot([lane("newer")])] == [ReceiverHealth.NEW]
