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

*Most of it is numbers in arrays*, since there are millions of places and all of them are needed
until the end. What a place holds is one value or a tuple of them: values are few, and each is one
object wherever it is. Where a place is copied to is one number in an array; several are a run
(runs.py), and a number below 0 says which. A watcher is a record in one array of all of them: the
next watcher of the place, which method it is, and the numbers that it is told beside the value.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from struct import Struct
from typing import Any, Final

from coatcheck.surfaces.graphs.analysis.python.known import Known
from coatcheck.surfaces.graphs.analysis.python.objects import Kind, Objects
from coatcheck.surfaces.graphs.analysis.python.runs import Runs

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
_UNKNOWN: Final = ()  # what a place holds that may hold anything

# What a watcher is told beside the value.
Data = tuple[int, ...]
Watcher = Callable[[int, Any], None]


class Flow:
    """Places, what they hold, and where it goes."""

    def __init__(self) -> None:
        self.objects = Objects()
        self._holds: list[int | tuple[int, ...] | None] = [None]
        # How many of a place's values are data, once that is asked.
        self._data = bytearray(1)
        # One copy is the place it is sent on to; several are ~ of their run.
        self._copies = array("i", [0])
        self._targets = Runs()
        self._known_copies: dict[int, Known] = {}
        # The last of a place's watchers; the one after the last is the first. 0: none.
        self._watchers = array("i", [0])
        self._records = array("i", [0])
        # By method, as a function: its number, and how its records are written. Each is told
        # as many numbers every time.
        self._sorts: dict[Any, tuple[int, Callable[..., bytes]]] = {}
        # By number: the method, and how what it is told is read.
        self._told: list[tuple[Any, Callable[[Any, int], Data]]] = []
        # What is to be handed on: one value, or a list.
        self._arrived: dict[int, int | list[int]] = {}
        self._waiting: deque[int] = deque()
        self._waiting_wide: deque[int] = deque()
        self._told_late: deque[tuple[Watcher, Data, list[int]]] = deque()

    def places(self, count: int) -> int:
        """Make room for this many places and return the one before the first."""
        base = len(self._holds) - 1
        self._holds.extend([None] * count)
        self._data.extend(bytes(count))
        nobody = array("i", [0]) * count
        self._copies.extend(nobody)
        self._watchers.extend(nobody)
        return base

    def place(self) -> int:
        """Make one place."""
        self._holds.append(None)
        self._data.append(0)
        self._copies.append(0)
        self._watchers.append(0)
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
        if isinstance(held, int):
            return (held,)
        return set(held) if held else ()

    def add(self, place: int, value: int) -> None:
        """Let a value arrive at a place."""
        held = self._holds[place]
        if held is None:
            self._holds[place] = value
        elif isinstance(held, int):
            if held == value:
                return
            self._holds[place] = (held, value)
        elif value in held or not held:
            return
        else:
            fitting = self._fitting(place, held, value)
            if fitting is None:
                return
            value = fitting
            self._holds[place] = (*held, value)
        arrived = self._arrived.get(place)
        if arrived is None:
            self._arrived[place] = value
            (self._waiting if held is None else self._waiting_wide).append(place)
        elif isinstance(arrived, int):
            self._arrived[place] = [arrived, value]
        else:
            arrived.append(value)

    def _fitting(self, place: int, held: tuple[int, ...], value: int) -> int | None:
        """Return what is to be added to several values: None where it is too much."""
        if len(held) >= WIDEST:
            self._give_up(place)
            return None
        kind = self.objects.kind
        if len(held) >= MOST_CONSTANTS and kind[value] in _DATA:
            count = self._data[place] or sum(kind[one] in _DATA for one in held)
            if count >= WIDEST_DATA:
                return None
            if count >= MOST_CONSTANTS and kind[value] is Kind.CONSTANT:
                name = "str" if isinstance(self.objects.first[value], str) else "int"
                value = self.objects.make(Kind.TYPED, name)
                if value in held:
                    return None
            self._data[place] = count + 1
        return value

    def _give_up(self, first: int) -> None:
        """Let a place be unknown, and all that it is sent on to."""
        given_up = [first]
        while given_up:
            place = given_up.pop()
            if self._holds[place] is _UNKNOWN:
                continue
            copies = self._copies[place]
            if copies > 0:
                given_up.append(copies)
            elif copies < 0:
                given_up.extend(self._targets.of(~copies))
                self._targets.drop(~copies)
                self._known_copies.pop(place, None)
            self._holds[place] = _UNKNOWN
            self._copies[place] = self._watchers[place] = 0
            self._arrived.pop(place, None)

    def copy(self, source: int, target: int) -> None:
        """Send everything that arrives at one place on to another."""
        held = self._holds[source]
        if source == target or not source or not target or self._holds[target] is _UNKNOWN:
            return
        if held is _UNKNOWN:
            self._give_up(target)
            return
        if not self._copies[source]:
            self._copies[source] = target
        elif not self.copy_once(source, target):
            return
        if isinstance(held, int):
            self.add(target, held)
        elif held is not None:
            for value in self.held(source):
                self.add(target, value)

    def copy_all(self, base: int, copies: Iterable[tuple[int, int]]) -> None:
        """Add copies between places that are counted from a base, before anything has arrived."""
        known = self._copies
        for source, target in copies:
            if known[base + source]:
                self.copy_once(base + source, base + target)
            else:
                known[base + source] = base + target

    def copy_once(self, source: int, target: int) -> bool:
        """Add a copy before anything has arrived; tell whether it is new."""
        copies = self._copies[source]
        if not copies:
            self._copies[source] = target
            return True
        if copies > 0:
            if copies == target:
                return False
            self._copies[source] = ~self._targets.start(copies, target)
            return True
        known = self._known_copies.get(source)
        if known is not None:
            if not known.add(target):
                return False
        else:
            run, numbers = ~copies, self._targets.numbers
            count = numbers[run]
            targets = numbers[run + 1 : run + 1 + count]
            if target in targets:
                return False
            if count == MANY_COPIES:
                self._known_copies[source] = Known((*targets, target))
        self._copies[source] = ~self._targets.append(~copies, target)
        return True

    def watch(self, place: int, watcher: Watcher, data: Data) -> None:
        """Tell a watcher, a method of this object, of everything that is or arrives at a place."""
        held = self._holds[place]
        if held is _UNKNOWN:
            return
        method: Any = watcher  # bound anew whenever it is named: what is kept is the function
        function = method.__func__
        sort = self._sorts.get(function)
        if sort is None:
            sort = self._sorts[function] = (len(self._told), Struct(f"{2 + len(data)}i").pack)
            self._told.append((function, Struct(f"{len(data)}i").unpack_from))
        number, written = sort
        records = self._records
        record, last = len(records), self._watchers[place]
        if last:
            records.frombytes(written(records[last], number, *data))
            records[last] = record
        else:
            records.frombytes(written(record, number, *data))
        self._watchers[place] = record
        if held is not None:
            arrived = self._arrived.get(place)
            late = (arrived,) if arrived is None or isinstance(arrived, int) else arrived
            # What has arrived and is not handled yet will be told in its turn. The rest waits for
            # its turn too: a watcher that watches must not be told from within itself.
            values = [value for value in self.held(place) if value not in late]
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
        values = (arrived,) if isinstance(arrived, int) else arrived
        copies = self._copies[place]
        if copies > 0:
            for value in values:
                add(copies, value)
        elif copies < 0:
            holds = self._holds
            for target in self._targets.of(~copies):
                for value in values:
                    if holds[target] != value:
                        add(target, value)
        last = self._watchers[place]
        if last:
            self._tell(last, values)

    def _tell(self, last: int, values: Sequence[int]) -> None:
        """Tell watchers up to the last there is now.

        Those that come while these are told have been told of all that was there.
        """
        records, told = self._records, self._told
        record = records[last]
        while True:
            watcher, read = told[records[record + 1]]
            data = read(records, 4 * record + 8)
            for value in values:
                watcher(self, value, data)
            if record == last:
                return
            record = records[record]
