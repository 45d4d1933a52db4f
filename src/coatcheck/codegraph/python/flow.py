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

*All of it is numbers in columns* (disk/), since there are millions of places and all of them are
needed until the end. What a place holds and where it is sent on to is one number each: nothing,
one, or which run it is that holds several. Values stay in the order that they came, so how many of
them have been handed on says which have not. A watcher is a record in one
column of all of them: the next watcher of the place, which method it is, and the numbers that it is
told beside the value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from struct import Struct
from typing import Any

from coatcheck.codegraph.disk.column import Code, Disk
from coatcheck.codegraph.disk.queues import Queue
from coatcheck.codegraph.disk.runs import IntLists
from coatcheck.codegraph.disk.tables import Keys
from coatcheck.codegraph.disk.words import Words
from coatcheck.codegraph.python.objects import ObjectKind, Objects

WIDEST = 32
# Containers, texts and what is outside matter less: they are called by nobody or end at once.
WIDEST_DATA = 8
_DATA = frozenset({
    ObjectKind.CONTAINER, ObjectKind.CONSTANT, ObjectKind.TYPED,
    ObjectKind.METHOD_OF, ObjectKind.EXTERNAL, ObjectKind.BUILTIN,
})  # fmt: skip
# Texts and numbers matter as keys and names of attributes; a place that holds more than this many
# holds "some text".
MOST_CONSTANTS = 4
# From so many copies on, it is looked up rather than searched for whether one is known.
MANY_COPIES = 16
# What a place holds that may hold anything. Several values are ~ of their run, which is below it.
_UNKNOWN = -1
# How many steps there are between two looks at the memory.
_STEPS = 64

# What a watcher is told beside the value.
Data = tuple[int, ...]
Watcher = Callable[[int, Any], None]


class Flow:
    """Places, what they hold, and where it goes."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk = disk or Disk()
        self.words = Words(disk)
        self.objects = Objects(disk, self.words)
        self._last = 0
        # By place: what it holds; how many of its values have been handed on; how many are data,
        # once that is asked; where it is sent on to; the last of its watchers, after which comes
        # the first. 0: none.
        codes: tuple[Code, ...] = ("i", "B", "B", "i", "i")
        self._columns = [disk.column(code, 1) for code in codes]
        self._get_views()
        # Several values, and several places.
        self._values = IntLists(disk)
        self._targets = IntLists(disk)
        # Those of places with many, as (source, target).
        self._known_copies = Keys(disk, 2)
        self._records = disk.column("i", 1)
        # By method, as a function: its number, and how its records are written. Each is told
        # as many numbers every time.
        self._sorts: dict[Any, tuple[int, int, Callable[..., None]]] = {}
        # By number: the method, and how what it is told is read.
        self._told: list[tuple[Any, Callable[[Any, int], Data]]] = []
        self._waiting = Queue(disk)
        self._waiting_wide = Queue(disk)
        self._steps = 0
        # By turns a watcher, and a value that it is to be told of.
        self._told_late = Queue(disk)

    def _get_views(self) -> None:
        self._holds, self._handed_on, self._data, self._copies, self._watchers = (
            column.numbers for column in self._columns
        )
        self._room = min(len(column.numbers) for column in self._columns)

    def places(self, count: int) -> int:
        """Make room for this many places and return the one before the first."""
        base = self._last
        self._last = base + count
        if self._last >= self._room:
            for column in self._columns:
                column.reserve(self._last + 1)
            self._get_views()
        return base

    def place(self) -> int:
        """Make one place."""
        return self.places(1) + 1

    def is_empty(self, place: int) -> bool:
        """Tell whether nothing has arrived at a place."""
        return self._holds[place] == 0

    def is_unknown(self, place: int) -> bool:
        """Tell whether a place may hold anything."""
        return self._holds[place] == _UNKNOWN

    def held(self, place: int) -> Collection[int]:
        """Return what a place holds, nothing where that may be anything."""
        held = self._holds[place]
        if held > 0:
            return (held,)
        return set(self._values.of(~held)) if held < _UNKNOWN else ()

    def add(self, place: int, value: int) -> None:
        """Let a value arrive at a place."""
        held = self._holds[place]
        if not held:
            self._holds[place] = value
            self._waiting.append(place)
            return
        if held > 0:
            if held == value:
                return
            count = 1
            self._holds[place] = ~self._values.start(held, value)
        elif held == _UNKNOWN:
            return
        else:
            values = self._values.of(~held)
            if value in values:
                return
            fitting = self._fitting(place, values, value)
            if not fitting:
                return
            count = len(values)
            self._holds[place] = ~self._values.append(~held, fitting)
        if self._handed_on[place] == count:
            self._waiting_wide.append(place)

    def _fitting(self, place: int, held: list[int], value: int) -> int:
        """Return what is to be added to several values: 0 where it is too much."""
        if len(held) >= WIDEST:
            self._give_up(place)
            return 0
        kind = self.objects.kind
        if len(held) >= MOST_CONSTANTS and kind[value] in _DATA:
            count = self._data[place] or sum(kind[one] in _DATA for one in held)
            if count >= WIDEST_DATA:
                return 0
            if count >= MOST_CONSTANTS and kind[value] is ObjectKind.CONSTANT:
                name = "str" if isinstance(self.objects.first[value], str) else "int"
                value = self.objects.make(ObjectKind.TYPED, name)
                if value in held:
                    return 0
            self._data[place] = count + 1
        return value

    def _give_up(self, first: int) -> None:
        """Let a place be unknown, and all that it is sent on to."""
        given_up = [first]
        while given_up:
            place = given_up.pop()
            held = self._holds[place]
            if held == _UNKNOWN:
                continue
            copies = self._copies[place]
            if copies > 0:
                given_up.append(copies)
            elif copies < 0:
                given_up.extend(self._targets.of(~copies))
                self._targets.drop(~copies)
            if held < 0:
                self._values.drop(~held)
            self._holds[place] = _UNKNOWN
            self._copies[place] = self._watchers[place] = 0

    def copy(self, source: int, target: int) -> None:
        """Send everything that arrives at one place on to another."""
        if source == target or not source or not target or self._holds[target] == _UNKNOWN:
            return
        held = self._holds[source]
        if held == _UNKNOWN:
            self._give_up(target)
            return
        if not self._copies[source]:
            self._copies[source] = target
        elif not self.copy_once(source, target):
            return
        if held > 0:
            self.add(target, held)
        elif held:
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
        count = self._targets.count(~copies)
        if count > MANY_COPIES:
            if not self._known_copies.add((source, target)):
                return False
        else:
            targets = self._targets.of(~copies)
            if target in targets:
                return False
            if count == MANY_COPIES:
                for one in (*targets, target):
                    self._known_copies.add((source, one))
        self._copies[source] = ~self._targets.append(~copies, target)
        return True

    def watch(self, place: int, watcher: Watcher, data: Data) -> None:
        """Tell a watcher, a method of this object, of everything that is or arrives at a place."""
        held = self._holds[place]
        if held == _UNKNOWN:
            return
        method: Any = watcher  # bound anew whenever it is named: what is kept is the function
        function = method.__func__
        sort = self._sorts.get(function)
        if sort is None:
            size = 2 + len(data)
            sort = self._sorts[function] = (len(self._told), size, Struct(f"{size}i").pack_into)
            self._told.append((function, Struct(f"{len(data)}i").unpack_from))
        number, size, write = sort
        record = self._records.add(size)
        records, last = self._records.numbers, self._watchers[place]
        if last:
            write(records, 4 * record, records[last], number, *data)
            records[last] = record
        else:
            write(records, 4 * record, record, number, *data)
        self._watchers[place] = record
        if held:
            # What has arrived and is not handled yet will be told in its turn. The rest waits for
            # its turn too: a watcher that watches must not be told from within itself.
            late = self._arrived(place)
            for value in self.held(place):
                if value not in late:
                    self._told_late.append(record)
                    self._told_late.append(value)

    def _arrived(self, place: int) -> list[int]:
        """Return what has arrived at a place and is not handed on yet."""
        held = self._holds[place]
        if held == _UNKNOWN:
            return []
        values = [held] if held > 0 else self._values.of(~held)
        return values[self._handed_on[place] :]

    def run(self) -> None:
        """Let everything flow until it is still."""
        told_late, waiting, waiting_wide = self._told_late, self._waiting, self._waiting_wide
        while True:
            while told_late.front or told_late.fill():
                self.breathe()
                record, value = told_late.front.popleft(), told_late.front.popleft()
                records = self._records.numbers
                watcher, read = self._told[records[record + 1]]
                watcher(self, value, read(records, 4 * record + 8))
            if waiting.front or waiting.fill():
                self._hand_on(waiting.front.popleft())
            elif waiting_wide.front or waiting_wide.fill():
                self._hand_on(waiting_wide.front.popleft())
            else:
                return
            self.breathe()

    def breathe(self) -> None:
        """Keep memory small; to be called at every step of what takes many."""
        self._steps += 1
        if self._steps >= _STEPS:
            self.take_breath()

    def take_breath(self) -> None:
        """Keep memory small; to be called after what takes long."""
        self._steps = 0
        for queue in (self._told_late, self._waiting, self._waiting_wide):
            queue.breathe()
        self.disk.breathe()

    def _hand_on(self, place: int) -> None:
        values = self._arrived(place)
        if not values:
            return  # it has become unknown
        self._handed_on[place] += len(values)
        copies = self._copies[place]
        if copies > 0:
            for value in values:
                self.add(copies, value)
        elif copies < 0:
            for target in self._targets.of(~copies):
                self.breathe()
                for value in values:
                    if self._holds[target] != value:
                        self.add(target, value)
        last = self._watchers[place]
        if last:
            self._tell(last, values)

    def _tell(self, last: int, values: Sequence[int]) -> None:
        """Tell watchers up to the last there is now.

        Those that come while these are told have been told of all that was there.
        """
        record = self._records.numbers[last]
        while True:
            records = self._records.numbers
            self.breathe()
            watcher, read = self._told[records[record + 1]]
            data = read(records, 4 * record + 8)
            for value in values:
                watcher(self, value, data)
            if record == last:
                return
            record = self._records.numbers[record]
