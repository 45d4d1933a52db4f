"""Concurrency limits of webhook calls, by lane and tenant, so that no receiver waits for another.

Deliveries wait in *lanes*: one per endpoint, or for jobs' own endpoints one per server. A process
has `AT_ONCE` slots for calls. A silent receiver occupies each of its slots until the call times
out, and silence cannot be predicted. So no lane or tenant gets so many slots that none is left for
another:

- A lane is *answering* if its last message was accepted, *failing* if it was not, and *new* if this
  process has not called it yet. A new lane whose message was tried before counts as failing. Only
  an answering lane may have several calls in progress. Any other lane has one, and becomes
  answering with the first message that is accepted.
- A tenant may use a share of the *free* slots: all of them for answering lanes, a quarter for new
  ones, an eighth for failing ones. Each slot in use reduces the share: of 256 slots a single tenant
  gets 112, or 45 for receivers it has just named, and the next tenant gets half, or a quarter, of
  the rest.
- The last 32 slots are reserved for tenants without a call in progress.
- In the same way, a lane may have as many calls as its tenant could still have beside them. A
  quarter of the tenant's share is reserved for lanes without a call in progress.

So a tenant's silent receivers, however many, do not delay other tenants, nor the tenant's own
receivers that answer. If a tenant has more than 45 receivers that are new *and* silent, only its
other new receivers wait, until those calls time out. Dozens of such tenants at the same moment are
needed to use up all slots.

Within these limits tenants take turns, and so do the lanes of a tenant: answering lanes first, then
new ones, and the longest due first.

The state of a lane is forgotten an hour after its last call. If there are very many lanes, the
oldest states are forgotten earlier.

A lane is refilled when half of its slots are free, not whenever a call ends. A tenant's lanes that
were held back by its share are checked again when a call of the same health ends. All lanes that
were held back are checked again when the number of free slots has doubled.
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

# Calls in progress in this process; the last of them are reserved for tenants without one.
AT_ONCE = 256
FOR_FIRST_CALLS = 32
# How long, and for how many lanes, the last result is remembered.
KNOWN_S = 3_600.0
MOST_KNOWN = 10_000


class ReceiverHealth(IntEnum):
    """The health of a lane's receiver; lanes with a lower value are served first."""

    ANSWERING = 0
    NEW = 1
    FAILING = 2


# Calls in progress in one lane; the share of free slots for all such lanes of a tenant; and the
# part of that share which is not reserved for lanes without a call.
PER_LANE = {ReceiverHealth.ANSWERING: 32, ReceiverHealth.NEW: 1, ReceiverHealth.FAILING: 1}
SHARE = {ReceiverHealth.ANSWERING: 1.0, ReceiverHealth.NEW: 1 / 4, ReceiverHealth.FAILING: 1 / 8}
FOR_FURTHER_CALLS = 3 / 4


class DeliverySlot(NamedTuple):
    """A slot that a call occupies while it is in progress."""

    lane: str
    tenant: str
    standing: ReceiverHealth


class DeliverySlots:
    """The slots of one process and their use by lane and tenant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = AT_ONCE
        self._in_progress: Counter[str] = Counter()
        self._shares: Counter[tuple[str, ReceiverHealth]] = Counter()
        # Whether the last message was accepted, and when; oldest first.
        self._known: dict[str, tuple[bool, float]] = {}
        # Shares that were used up at the last allotment, and how many slots were free then.
        self._held_back: set[tuple[str, ReceiverHealth]] = set()
        self._room_then = _room(AT_ONCE)

    def learn(self, lane: str, *, taken: bool) -> None:
        """Record whether a lane's message was accepted."""
        self._known.pop(lane, None)
        self._known[lane] = taken, self._clock.monotonic()
        self._forget()

    def allot(self, due: Iterable[DeliveryLane]) -> dict[DeliverySlot, int]:
        """Return which of these lanes may start more calls, with which health, and how many."""
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
        """Occupy a slot when a call starts."""
        self._free -= 1
        self._in_progress[place.lane] += 1
        self._shares[place.tenant, place.standing] += 1

    def leave(self, place: DeliverySlot) -> bool:
        """Free a slot when a call ends; return whether other lanes should be checked now."""
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
        # No more lanes than there are slots, because this runs at every check.
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
    """Return how many of the free slots any tenant may use."""
    return max(0, free - FOR_FIRST_CALLS)


def _calls(shares: Counter[tuple[str, ReceiverHealth]], tenant: str) -> int:
    return sum(shares[tenant, standing] for standing in ReceiverHealth)


def _less(counts: Counter[Name], name: Name) -> int:
    """Decrement a count; remove it when it reaches zero."""
    counts[name] -= 1
    left = counts[name]
    if not left:
        del counts[name]
    return left
