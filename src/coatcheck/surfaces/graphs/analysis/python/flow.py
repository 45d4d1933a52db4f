"""Values flow from place to place until nothing new arrives anywhere.

A place holds a set of values. A copy sends what arrives at one place on to another; a watcher is
told of each value that arrives and may add copies and watchers as it learns what is called. Every
value is handled once at every place, and a place holds at most `WIDEST` values, so the whole takes
time in proportion to the number of places.

*What may be more than that may be anything.* Such a place is unknown from then on, and so is every
place that it is sent on to: they hold nothing, nobody is told of anything there, and nothing is
said about who is called from there. What has left a place before it became unknown stays where it
went, so places that hold more than one value wait until those with one are done: most of what
makes them unknown arrives before they hand anything on.

*Most places hold one value, have one copy and one watcher*, so one of either is kept as it is: a
value or a copy without a set or a list around it, and what a watcher is told beside the value
without the watcher, where the type of it says which one that is (`tell_usually`). Up to `FEW`
values are a tuple, less than a quarter of a set; whoever goes through them gets them in the
order of the set all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Final

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
# From so many copies on, it is looked up rather than searched for whether one is known.
MANY_COPIES = 16
# Up to so many values are searched for rather than looked up.
FEW = 8
_UNKNOWN: Final[set[int]] = set()  # it stays empty: which one it is says it all

Watcher = Callable[[int, Any], None]


class Flow:
    """Places, what they hold, and where it goes."""

    def __init__(self) -> None:
        self.objects = Objects()
        self._holds: list[int | tuple[int, ...] | set[int] | None] = [None]
        # Many are a dict, by what they are sent on to.
        self._copies: list[int | list[int] | dict[int, None] | None] = [None]
        # By turns a watcher, as a function, and what it is told beside the value; or that alone.
        self._watchers: list[Any] = [None]
        self._usual: dict[type, Any] = {}
        self._arrived: dict[int, list[int]] = {}
        self._waiting: deque[int] = deque()
        self._waiting_wide: deque[int] = deque()
        self._data: dict[int, int] = {}
        self._told_late: deque[tuple[Watcher, Any, list[int]]] = deque()

    def places(self, count: int) -> int:
        """Make room for this many places and return the one before the first."""
        base = len(self._holds) - 1
        self._holds.extend([None] * count)
        self._copies.extend([None] * count)
        self._watchers.extend([None] * count)
        return base

    def place(self) -> int:
        """Make one place."""
        self._holds.append(None)
        self._copies.append(None)
        self._watchers.append(None)
        return len(self._holds) - 1

    def is_empty(self, place: int) -> bool:
        """Tell whether nothing has arrived at a place."""
        return self._holds[place] is None

    def is_unknown(self, place: int) -> bool:
        """Tell whether a place may hold anything."""
        return self._holds[place] is _UNKNOWN

    def held(self, place: int) -> Collection[int]:
        """Return what a place holds, nothing where that may be anything."""
        held = self._holds[place]
        if held is None:
            return ()
        if isinstance(held, int):
            return (held,)
        return set(held) if isinstance(held, tuple) else held

    def add(self, place: int, value: int) -> None:  # noqa: C901, PLR0912
        """Let a value arrive at a place."""
        held = self._holds[place]
        if held is None:
            self._holds[place] = value
        elif isinstance(held, int):
            if held == value:
                return
            self._holds[place] = (held, value)
        elif value in held or held is _UNKNOWN:
            return
        else:
            size = len(held)
            if size >= WIDEST:
                self._give_up(place)
                return
            if size >= MOST_CONSTANTS and self.objects.kind[value] in _DATA:
                count = self._data.get(place) or self._count_data(held)
                if count >= WIDEST_DATA:
                    return
                if count >= MOST_CONSTANTS and self.objects.kind[value] is Kind.CONSTANT:
                    name = "str" if isinstance(self.objects.first[value], str) else "int"
                    value = self.objects.make(Kind.TYPED, name)
                    if value in held:
                        return
                self._data[place] = count + 1
            if size < FEW:
                self._holds[place] = (*held, value)
            else:
                if isinstance(held, tuple):
                    held = self._holds[place] = set(held)
                held.add(value)
        arrived = self._arrived.get(place)
        if arrived is not None:
            arrived.append(value)
            return
        self._arrived[place] = [value]
        if held is None:
            self._waiting.append(place)
        else:
            self._waiting_wide.append(place)

    def _count_data(self, held: Collection[int]) -> int:
        kind = self.objects.kind
        return sum(kind[value] in _DATA for value in held)

    def _give_up(self, first: int) -> None:
        """Let a place be unknown, and all that it is sent on to."""
        given_up = [first]
        while given_up:
            place = given_up.pop()
            if self._holds[place] is _UNKNOWN:
                continue
            copies = self._copies[place]
            if copies is not None:
                given_up.extend((copies,) if isinstance(copies, int) else copies)
            self._holds[place] = _UNKNOWN
            self._copies[place] = self._watchers[place] = None
            self._arrived.pop(place, None)
            self._data.pop(place, None)

    def copy(self, source: int, target: int) -> None:
        """Send everything that arrives at one place on to another."""
        held = self._holds[source]
        if source == target or not source or not target or self._holds[target] is _UNKNOWN:
            return
        if held is _UNKNOWN:
            self._give_up(target)
            return
        if not self.copy_once(source, target) or held is None:
            return
        if isinstance(held, int):
            self.add(target, held)
        else:
            for value in list(self.held(source)):
                self.add(target, value)

    def copy_once(self, source: int, target: int) -> bool:
        """Add a copy before anything has arrived; tell whether it is new."""
        copies = self._copies[source]
        if copies is None:
            self._copies[source] = target
        elif isinstance(copies, int):
            if copies == target:
                return False
            self._copies[source] = [copies, target]
        elif target in copies:
            return False
        else:
            if len(copies) == MANY_COPIES:
                copies = self._copies[source] = dict.fromkeys(copies)
            if isinstance(copies, dict):
                copies[target] = None
            else:
                copies.append(target)
        return True

    def tell_usually(self, sort: type, watcher: Watcher) -> None:
        """Let a watcher be the one that is meant where it is told something of a type."""
        method: Any = watcher
        self._usual[sort] = method.__func__

    def watch(self, place: int, watcher: Watcher, data: Any) -> None:
        """Tell a watcher, a method of this object, of everything that is or arrives at a place."""
        held = self._holds[place]
        if held is _UNKNOWN:
            return
        method: Any = watcher  # bound anew whenever it is named: what is kept is the function
        function = method.__func__
        watchers = self._watchers[place]
        if watchers is None:
            is_usual = self._usual.get(type(data)) is function
            self._watchers[place] = data if is_usual else [function, data]
        elif type(watchers) is list:
            watchers += (function, data)
        else:
            self._watchers[place] = [self._usual[type(watchers)], watchers, function, data]
        if held is not None:
            arrived = self._arrived.get(place, ())
            # What has arrived and is not handled yet will be told in its turn. The rest waits for
            # its turn too: a watcher that watches must not be told from within itself.
            values = [value for value in self.held(place) if value not in arrived]
            if values:
                self._told_late.append((watcher, data, values))

    def run(self) -> None:
        """Let everything flow until it is still."""
        told_late = self._told_late
        while True:
            while told_late:
                watcher, data, values = told_late.popleft()
                for value in values:
                    watcher(value, data)
            if self._waiting:
                self._hand_on(self._waiting.popleft())
            elif self._waiting_wide:
                self._hand_on(self._waiting_wide.popleft())
            else:
                return

    def _hand_on(self, place: int) -> None:
        arrived = self._arrived.pop(place, None)
        if arrived is None:
            return  # it has become unknown
        add = self.add
        copies = self._copies[place]
        if isinstance(copies, int):
            for value in arrived:
                add(copies, value)
        elif copies is not None:
            for target in copies:
                for value in arrived:
                    add(target, value)
        watchers = self._watchers[place]
        if watchers is not None:
            self._tell(watchers, arrived)

    def _tell(self, watchers: Any, arrived: list[int]) -> None:
        if type(watchers) is not list:
            watcher = self._usual[type(watchers)]
            for value in arrived:
                watcher(self, value, watchers)
            return
        # Those that come while these are told have been told of all that was there.
        for index in range(0, len(watchers), 2):
            watcher, data = watchers[index], watchers[index + 1]
            for value in arrived:
                watcher(self, value, data)
