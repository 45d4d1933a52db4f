"""Lanes: how many calls each receiver may have under way, so that none waits for another.

Deliveries wait in *lanes*: an endpoint's, or for jobs' own endpoints the server they are at. A
process has `AT_ONCE` places for calls. A receiver that is silent keeps each place it has until the
call is given up, and nobody knows beforehand who will be silent. So nobody gets so many places that
there is none for somebody else:

- A lane is *answering* if its last message was taken, *failing* if it was not, and *new* if this
  process has not called it yet. A new one whose message was tried before is taken for failing.
  Only one that is answering has several calls under way; any other has one, and is opened by the
  first message that is taken.
- A tenant may have a share of the places that are *free*: for lanes that answer as many as are
  free, for new ones a quarter of that, for failing ones an eighth. Whatever is taken makes less of
  what may be taken: of 256 places a tenant alone gets 112, or 45 for receivers it has just named,
  and the next one half, or a quarter, of what that leaves.
- The last 32 places are for tenants that have no call under way.
- In the same way a lane may have as many as its tenant could still have beside them. A quarter of
  the tenant's share is for lanes that have no call under way.

So a tenant's silent receivers, however many, cost other tenants nothing, nor those of its own that
answer. Only where a tenant has more than 45 receivers that are new *and* silent do its other new
ones wait, until those calls are given up; and it takes dozens of such tenants in the same moment to
use up all places.

Within these limits tenants take turns, and so do the lanes of a tenant: those that answer first,
then those that are new, and the longest due before others.

What is known of a lane is forgotten an hour after its last call, and the oldest of it where there
is very much.

When to look again: a lane is filled up when half of its places are free, not whenever a call ends.
A tenant's lanes that were held back by its share look again when a call of the same standing ends,
and everybody who was held back when twice as many places are free as there were.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple, TypeVar

from coatcheck.clock import Clock
from coatcheck.store.webhooks import DeliveryLane

Name = TypeVar("Name")

# Calls under way in this process; the last of them are for who has none.
AT_ONCE = 256
FOR_FIRST_CALLS = 32
# What is known of lanes: for how long, and of how many.
KNOWN_S = 3_600.0
MOST_KNOWN = 10_000


class ReceiverHealth(IntEnum):
    """How a lane stands; the lower is served first."""

    ANSWERING = 0
    NEW = 1
    FAILING = 2


# Calls under way in one lane, and in all such lanes of a tenant as a share of what is free; of that
# share the part that is not only for lanes that have none.
PER_LANE = {ReceiverHealth.ANSWERING: 32, ReceiverHealth.NEW: 1, ReceiverHealth.FAILING: 1}
SHARE = {ReceiverHealth.ANSWERING: 1.0, ReceiverHealth.NEW: 1 / 4, ReceiverHealth.FAILING: 1 / 8}
FOR_FURTHER_CALLS = 3 / 4


class DeliverySlot(NamedTuple):
    """What a call holds while it is under way."""

    lane: str
    tenant: str
    standing: ReceiverHealth


class DeliverySlots:
    """Who has how many of one process's places."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = AT_ONCE
        self._in_progress: Counter[str] = Counter()
        self._shares: Counter[tuple[str, ReceiverHealth]] = Counter()
        # Whether the last message was taken, and when that was; the oldest first.
        self._known: dict[str, tuple[bool, float]] = {}
        # Whose share was used up when last asked, and how much room there was then.
        self._held_back: set[tuple[str, ReceiverHealth]] = set()
        self._room_then = _room(AT_ONCE)

    def learn(self, lane: str, *, taken: bool) -> None:
        """Remember whether a lane's message was taken."""
        self._known.pop(lane, None)
        self._known[lane] = taken, self._clock.monotonic()
        self._forget()

    def allot(self, due: Iterable[DeliveryLane]) -> dict[DeliverySlot, int]:
        """Say which of these lanes may have more calls, as what, and how many."""
        self._forget()
        self._held_back.clear()
        free, shares = self._free, self._shares.copy()
        given: Counter[DeliverySlot] = Counter()
        waiting = self._lines(due)
        turns = deque(sorted(waiting, key=lambda tenant: _calls(shares, tenant)))
        while turns:
            tenant = turns.popleft()
            line = waiting[tenant]
            while line:
                place = line.popleft()
                share = (tenant, place.standing)
                calls = self._in_progress[place.lane] + given[place]
                if calls >= PER_LANE[place.standing]:
                    continue
                room = free - FOR_FIRST_CALLS if _calls(shares, tenant) else free
                most = room * SHARE[place.standing] * (FOR_FURTHER_CALLS if calls else 1)
                if calls < most - shares[share]:
                    given[place] += 1
                    shares[share] += 1
                    free -= 1
                    line.append(place)
                    turns.append(tenant)
                    break
                self._held_back.add(share)
        self._room_then = _room(free)
        return given

    def take(self, place: DeliverySlot) -> None:
        """Have a call begin."""
        self._free -= 1
        self._in_progress[place.lane] += 1
        self._shares[place.tenant, place.standing] += 1

    def leave(self, place: DeliverySlot) -> bool:
        """Have a call end; say whether others should now be looked at."""
        self._free += 1
        share = (place.tenant, place.standing)
        left = _less(self._in_progress, place.lane)
        _less(self._shares, share)
        if left == 0 or left == PER_LANE[ReceiverHealth.ANSWERING] // 2:
            return True
        if not self._held_back:
            return False
        return share in self._held_back or _room(self._free) >= 2 * self._room_then

    def _lines(self, due: Iterable[DeliveryLane]) -> dict[str, deque[DeliverySlot]]:
        """Return each tenant's lanes that are at least half empty, in the order of their turns."""
        # Of very many no more than could all get a place: this is done at every look.
        sorts: dict[tuple[ReceiverHealth, str], list[str]] = defaultdict(list)
        for lane in sorted(due, key=attrgetter("due_at")):
            stands = self._standing(lane)
            names = sorts[stands, lane.tenant]
            if (
                len(names) < AT_ONCE
                and self._in_progress.get(lane.name, 0) <= PER_LANE[stands] // 2
            ):
                names.append(lane.name)
        lines: dict[str, deque[DeliverySlot]] = defaultdict(deque)
        for stands, tenant in sorted(sorts):
            lines[tenant].extend(
                DeliverySlot(name, tenant, stands) for name in sorts[stands, tenant]
            )
        return lines

    def _standing(self, lane: DeliveryLane) -> ReceiverHealth:
        known = self._known.get(lane.name)
        if known is None:
            return ReceiverHealth.FAILING if lane.tried else ReceiverHealth.NEW
        return ReceiverHealth.ANSWERING if known[0] else ReceiverHealth.FAILING

    def _forget(self) -> None:
        until = self._clock.monotonic() - KNOWN_S
        while self._known:
            oldest = next(iter(self._known))
            if len(self._known) <= MOST_KNOWN and self._known[oldest][1] > until:
                return
            del self._known[oldest]


def _room(free: int) -> int:
    """Return how many of the free places are for everybody."""
    return max(0, free - FOR_FIRST_CALLS)


def _calls(shares: Counter[tuple[str, ReceiverHealth]], tenant: str) -> int:
    return sum(shares[tenant, standing] for standing in ReceiverHealth)


def _less(counts: Counter[Name], name: Name) -> int:
    """Count one less; what is none is not kept."""
    counts[name] -= 1
    left = counts[name]
    if not left:
        del counts[name]
    return left
