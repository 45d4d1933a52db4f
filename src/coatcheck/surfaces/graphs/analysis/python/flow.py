"""Values flow from place to place until nothing new arrives anywhere.

A place holds a set of values. A copy sends what arrives at one place on to another; a watcher is
told of each value that arrives and may add copies and watchers as it learns what is called. Every
value is handled once at every place, and a place holds at most `WIDEST` values, so the whole takes
time in proportion to the number of places. What may be more than that may be anything: it is
remembered as `overfull`, and nothing is said about who is called from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from coatcheck.surfaces.graphs.analysis.python.objects import Kind, Objects

WIDEST = 32
# Containers, texts and what is outside matter less: they are called by nobody or end at once.
WIDEST_DATA = 8
_DATA = frozenset({
    Kind.CONTAINER, Kind.CONSTANT, Kind.TYPED, Kind.METHOD_OF, Kind.EXTERNAL, Kind.BUILTIN,
})  # fmt: skip
# Texts and numbers matter as keys and names of attributes; a place that holds more than this many
# holds "some text".
MOST_CONSTANTS = 4

Watcher = Callable[[int, Any], None]


class Flow:
    """Places, what they hold, and where it goes."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.holds: list[set[int] | None] = [None]
        self._copies: list[list[int] | None] = [None]
        self._watchers: list[list[tuple[Watcher, Any]] | None] = [None]
        self._arrived: dict[int, list[int]] = {}
        self._waiting: deque[int] = deque()
        self._data: dict[int, int] = {}
        self._known: set[tuple[int, int]] = set()
        self._told_late: deque[tuple[Watcher, Any, list[int]]] = deque()
        # What may be more than that: who is called from there is not known.
        self.overfull: set[int] = set()

    def places(self, count: int) -> int:
        """Make room for this many places and return the one before the first."""
        base = len(self.holds) - 1
        self.holds.extend([None] * count)
        self._copies.extend([None] * count)
        self._watchers.extend([None] * count)
        return base

    def place(self) -> int:
        """Make one place."""
        self.holds.append(None)
        self._copies.append(None)
        self._watchers.append(None)
        return len(self.holds) - 1

    def add(self, place: int, value: int) -> None:
        """Let a value arrive at a place."""
        held = self.holds[place]
        if held is None:
            held = self.holds[place] = set()
        elif value in held:
            return
        elif len(held) >= WIDEST:
            self.overfull.add(place)
            return
        kind = self.objects.kind[value]
        if kind in _DATA:
            count = self._data.get(place, 0) + 1
            if count > WIDEST_DATA:
                return
            if kind is Kind.CONSTANT and count > MOST_CONSTANTS:
                name = "str" if isinstance(self.objects.first[value], str) else "int"
                value = self.objects.make(Kind.TYPED, name)
                if value in held:
                    return
            self._data[place] = count
        held.add(value)
        arrived = self._arrived.get(place)
        if arrived is None:
            self._arrived[place] = [value]
            self._waiting.append(place)
        else:
            arrived.append(value)

    def copy(self, source: int, target: int) -> None:
        """Send everything that arrives at one place on to another."""
        if source == target or (source, target) in self._known:
            return
        self._known.add((source, target))
        self.copy_once(source, target)
        held = self.holds[source]
        if held:
            for value in list(held):
                self.add(target, value)

    def copy_once(self, source: int, target: int) -> None:
        """Add a copy that is known to be new, before anything has arrived."""
        copies = self._copies[source]
        if copies is None:
            self._copies[source] = [target]
        else:
            copies.append(target)

    def watch(self, place: int, watcher: Watcher, data: Any) -> None:
        """Tell a watcher of everything that is or arrives at a place."""
        watchers = self._watchers[place]
        if watchers is None:
            self._watchers[place] = [(watcher, data)]
        else:
            watchers.append((watcher, data))
        held = self.holds[place]
        if held:
            arrived = self._arrived.get(place, ())
            # What has arrived and is not handled yet will be told in its turn. The rest waits for
            # its turn too: a watcher that watches must not be told from within itself.
            values = [value for value in held if value not in arrived]
            if values:
                self._told_late.append((watcher, data, values))

    def run(self) -> None:  # noqa: C901
        """Let everything flow until it is still."""
        waiting, all_arrived, told_late = self._waiting, self._arrived, self._told_late
        while waiting or told_late:
            while told_late:
                watcher, data, values = told_late.popleft()
                for value in values:
                    watcher(value, data)
            if not waiting:
                break
            place = waiting.popleft()
            arrived = all_arrived.pop(place)
            copies = self._copies[place]
            if copies is not None:
                add = self.add
                for target in copies:
                    for value in arrived:
                        add(target, value)
            watchers = self._watchers[place]
            if watchers is not None:
                for watcher, data in list(watchers):
                    for value in arrived:
                        watcher(value, data)

    def reached_from_overfull(self) -> set[int]:
        """Return the places that may hold anything: those, and where they are sent on to."""
        reached = set(self.overfull)
        waiting = list(reached)
        while waiting:
            for target in self._copies[waiting.pop()] or ():
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return reached
