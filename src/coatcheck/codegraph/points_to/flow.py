"""The constraint solver: values flow from variable to variable until a fixpoint is reached.

A variable holds a set of values. A copy sends every value that arrives at one variable on to
another. A subscriber is called with each value that arrives, and may add copies and subscribers as
it learns what is called. Every value is processed once per variable, and a variable holds at most
`MAX_VALUES`, so time is proportional to the number of variables and copies.

*Overflow.* A variable that would hold more becomes unknown, and so does every variable it is copied
to: they hold nothing, their subscribers are dropped, and calls through them yield no edges. Values
that left a variable before it became unknown stay where they went. Therefore variables with several
values wait in a second queue until those with one are done: most of what causes an overflow
arrives before anything is sent on.

*Memory.* There are millions of variables, and all are needed until the end. A variable is an int,
an index of a few lists. The usual case takes no object: one value is stored as such, and so is one
copy or one subscriber. Only several of them are a list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from coatcheck.codegraph.points_to import kinds

MAX_VALUES = 32
# Containers, texts and external objects matter less: nobody calls them, or they end the path.
MAX_DATA_VALUES = 8
_DATA = frozenset({
    kinds.CONTAINER, kinds.CONSTANT, kinds.TYPED,
    kinds.METHOD_OF, kinds.EXTERNAL, kinds.BUILTIN,
})  # fmt: skip
# Texts and numbers matter as keys and attribute names. A variable with more than this many holds
# "some text" instead.
MAX_CONSTANTS = 4
# With more copies than this, a dict tells whether one is known.
MAX_LISTED_COPIES = 16
_UNKNOWN: Final = ()  # instead of values: may be anything

Handler = Callable[[Any, Any], None]
# A handler as a plain function, and the data it gets beside the value.
_Subscriber = tuple[Callable[[Any, Any, Any], None], Any]


class Objects:
    """Numbers abstract objects from 1: the values that variables hold."""

    def __init__(self) -> None:
        self._numbers: list[dict[Any, int]] = [{} for _ in range(kinds.COUNT)]
        # By number. The meaning of `first` and `second` depends on the kind.
        self.kind: list[int] = [-1]
        self.first: list[Any] = [None]
        self.second: list[Any] = [None]

    def make(self, kind: int, first: Any, second: Any = None) -> int:
        """Return the number of an object; create the object if it is new."""
        numbers = self._numbers[kind]
        key = first if second is None else (first, second)
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(self.kind)
            self.kind.append(kind)
            self.first.append(first)
            self.second.append(second)
        return number


class Flow:
    """Variables, their values, and the worklist."""

    def __init__(self) -> None:
        self.objects = objects = Objects()
        self.kind, self.first, self.second = objects.kind, objects.first, objects.second
        self.make = objects.make
        # By variable; variable 0 does not exist. Values: None, one, several, or _UNKNOWN.
        self._values: list[int | list[int] | tuple[()] | None] = [None]
        self._propagated = bytearray(1)  # how many of the values have been sent on
        self._copies: list[int | list[int] | dict[int, None] | None] = [None]
        self._subscribers: list[_Subscriber | list[_Subscriber] | None] = [None]
        # How many values of a variable are data; counted on demand.
        self._data_counts: dict[int, int] = {}
        self._pending: deque[int] = deque()
        self._pending_wide: deque[int] = deque()
        # Subscribers to values that were there before them.
        self._late: deque[tuple[_Subscriber, int]] = deque()

    def new_vars(self, count: int) -> int:
        """Create variables and return the number before the first."""
        base = len(self._values) - 1
        nothing = [None] * count
        self._values += nothing
        self._copies += nothing
        self._subscribers += nothing
        self._propagated += bytes(count)
        return base

    def new_var(self) -> int:
        """Create one variable."""
        self._values.append(None)
        self._copies.append(None)
        self._subscribers.append(None)
        self._propagated.append(0)
        return len(self._values) - 1

    def is_empty(self, var: int) -> bool:
        """Tell whether no value has arrived at a variable."""
        return self._values[var] is None

    def is_unknown(self, var: int) -> bool:
        """Tell whether a variable may hold anything."""
        return self._values[var] is _UNKNOWN

    def values_of(self, var: int) -> Collection[int]:
        """Return the values of a variable; none if it is unknown."""
        held = self._values[var]
        if isinstance(held, int):
            return (held,)
        return set(held) if held else ()

    def add(self, var: int, value: int) -> None:
        """Add a value to a variable."""
        held = self._values[var]
        if held is None:
            self._values[var] = value
            self._pending.append(var)
        elif isinstance(held, int):
            if held != value:
                self._values[var] = [held, value]
                if self._propagated[var] == 1:
                    self._pending_wide.append(var)
        elif held and value not in held:
            self._add_to_several(var, held, value)

    def _add_to_several(self, var: int, held: list[int], value: int) -> None:
        if len(held) >= MAX_VALUES:
            self._mark_unknown(var)
            return
        kind = self.kind
        if len(held) >= MAX_CONSTANTS and kind[value] in _DATA:
            count = self._data_counts.get(var) or sum(kind[one] in _DATA for one in held)
            if count >= MAX_DATA_VALUES:
                return
            if count >= MAX_CONSTANTS and kind[value] == kinds.CONSTANT:
                value = self.make(
                    kinds.TYPED, "str" if isinstance(self.first[value], str) else "int"
                )
                if value in held:
                    return
            self._data_counts[var] = count + 1
        if self._propagated[var] == len(held):
            self._pending_wide.append(var)
        held.append(value)

    def _mark_unknown(self, first: int) -> None:
        """Make a variable unknown, and all that it is copied to."""
        pending = [first]
        while pending:
            var = pending.pop()
            if self._values[var] is _UNKNOWN:
                continue
            copies = self._copies[var]
            if isinstance(copies, int):
                pending.append(copies)
            elif copies is not None:
                pending.extend(copies)
            self._values[var] = _UNKNOWN
            self._copies[var] = self._subscribers[var] = None

    def copy(self, source: int, target: int) -> None:
        """Send every value that arrives at one variable on to another."""
        if source == target or not source or not target or self._values[target] is _UNKNOWN:
            return
        held = self._values[source]
        if held is _UNKNOWN:
            self._mark_unknown(target)
            return
        if self._copies[source] is None:
            self._copies[source] = target
        elif not self.add_copy(source, target):
            return
        if held is None:
            return
        if isinstance(held, int):
            self.add(target, held)
        else:
            for value in set(held):
                self.add(target, value)

    def copy_all(self, base: int, copies: Iterable[tuple[int, int]]) -> None:
        """Add copies between variables counted from a base, before any value has arrived."""
        known = self._copies
        for source, target in copies:
            if known[base + source] is None:
                known[base + source] = base + target
            else:
                self.add_copy(base + source, base + target)

    def add_copy(self, source: int, target: int) -> bool:
        """Record a copy without sending values; tell whether it is new."""
        copies = self._copies[source]
        if copies is None:
            self._copies[source] = target
        elif isinstance(copies, int):
            if copies == target:
                return False
            self._copies[source] = [copies, target]
        elif target in copies:
            return False
        elif isinstance(copies, dict):
            copies[target] = None
        else:
            copies.append(target)
            if len(copies) > MAX_LISTED_COPIES:
                self._copies[source] = dict.fromkeys(copies)
        return True

    def subscribe(self, var: int, handler: Handler, data: Any) -> None:
        """Call a method of this object with every value that is at a variable or arrives there."""
        held = self._values[var]
        if held is _UNKNOWN:
            return
        # The method is bound on each access; the function is one object.
        subscriber: _Subscriber = (handler.__func__, data)  # type: ignore[attr-defined]
        subscribers = self._subscribers[var]
        if subscribers is None:
            self._subscribers[var] = subscriber
        elif isinstance(subscribers, list):
            subscribers.append(subscriber)
        else:
            self._subscribers[var] = [subscribers, subscriber]
        if held is not None:
            # The propagation will deliver values that it has not sent on yet. The others wait in a
            # queue, so that no handler is called from within itself.
            if isinstance(held, int):
                if self._propagated[var]:
                    self._late.append((subscriber, held))
                return
            waiting = held[self._propagated[var] :]
            for value in set(held):
                if value not in waiting:
                    self._late.append((subscriber, value))

    def run(self) -> None:
        """Propagate values until nothing changes."""
        late, pending, wide = self._late, self._pending, self._pending_wide
        while True:
            while late:
                (function, data), value = late.popleft()
                function(self, value, data)
            if pending:
                self._propagate(pending.popleft())
            elif wide:
                self._propagate(wide.popleft())
            else:
                return

    def _propagate(self, var: int) -> None:
        """Send the new values of a variable to its copies and subscribers."""
        held = self._values[var]
        done = self._propagated[var]
        values: Sequence[int] = (held,) if isinstance(held, int) else held or ()
        if done:
            values = values[done:]
        if not values:
            return  # the variable has become unknown
        self._propagated[var] = done + len(values)
        copies = self._copies[var]
        if copies is not None:
            for target in (copies,) if isinstance(copies, int) else copies:
                self._add_all(target, values)
        subscribers = self._subscribers[var]
        if subscribers is None:
            return
        # A subscriber that is added meanwhile gets these values on its own.
        every = (subscribers,) if isinstance(subscribers, tuple) else tuple(subscribers)
        for function, data in every:
            for value in values:
                function(self, value, data)

    def _add_all(self, var: int, values: Sequence[int]) -> None:
        """Add several values to a variable; most of them are often there."""
        held = self._values[var]
        if held is None or isinstance(held, int):
            for value in values:
                if value != held:
                    self.add(var, value)
        elif held:
            for value in values:
                if value not in held:
                    self._add_to_several(var, held, value)
