"""The values that places can hold: each is made once, and is an int from then on."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.lately import CachedRead, Lately
from coatcheck.codegraph.disk.tables import Keys
from coatcheck.codegraph.disk.words import Words


class ObjectKind(IntEnum):
    """What sort of value it is. `first` and `second` say which one."""

    FUNCTION = 0  # index of the function
    CLASS = 1  # index of the class
    INSTANCE = 2  # index of the class: all instances of a class are one value
    MODULE = 3  # index of the module
    EXTERNAL = 4  # import path
    BUILTIN = 5  # name
    BOUND = 6  # what is called, and the value that it gets as its first argument
    CONTAINER = 7  # index of the container: one for each place in the code that makes one
    GENERATOR = 8  # index of the function
    COROUTINE = 9  # index of the function
    CONSTANT = 10  # what it is written as
    TYPED = 11  # name of a builtin type
    PARTIAL = 12  # index of the partial call
    SUPER = 13  # index of the class, and the value that methods get
    PROPERTY = 14  # index of the property
    STATIC = 15  # the function's value
    CLASS_METHOD = 16  # the function's value
    METHOD_OF = 17  # the value, and the name of a method that Python brings with it
    MANAGER_MAKER = 18  # the function's value: what @contextmanager makes of a function
    MANAGER = 19  # index of the function
    NAMESPACE = 20  # the value whose `__dict__` it is
    WRAPPER = 21  # what it does to the function that it decorates


# What says which one it is, where that is a word.
_WORDS_FIRST = frozenset({
    ObjectKind.EXTERNAL, ObjectKind.BUILTIN, ObjectKind.CONSTANT,
    ObjectKind.TYPED, ObjectKind.WRAPPER,
})  # fmt: skip
_KINDS = tuple(ObjectKind)
_Value = tuple[ObjectKind, int | str, int | str | None]


class Objects:
    """Gives each value its number, from 1 on: kind, first and second are its key."""

    def __init__(self, disk: Disk, words: Words) -> None:
        self._keys = keys = Keys(disk, 3)
        self._numbers = _Numbers(keys, words)
        self.kind: Lately[int, ObjectKind] = CachedRead(lambda value: _KINDS[keys.key(value)[0]])
        # Any: what it is depends on the kind.
        self.first: Lately[int, Any] = CachedRead(lambda value: _first(keys.key(value), words))
        self.second: Lately[int, Any] = CachedRead(lambda value: _second(keys.key(value), words))

    def make(self, kind: ObjectKind, first: int | str, second: int | str | None = None) -> int:
        """Return the number of a value."""
        return self._numbers[kind, first, second]

    @property
    def all(self) -> range:
        """The numbers of all values."""
        return range(1, self._keys.count + 1)


class _Numbers(Lately[_Value, int]):
    def __init__(self, keys: Keys, words: Words) -> None:
        super().__init__()
        self._keys = keys
        self._words = words

    def read(self, value: _Value) -> int:
        kind, first, second = value
        if kind in _WORDS_FIRST or isinstance(first, str):
            first = self._words[first]
        if isinstance(second, str):
            second = self._words[second]
        return self._keys.number((kind, first, 0 if second is None else second + 1))


def _first(key: tuple[int, ...], words: Words) -> Any:
    kind, first, _ = key
    return words.at[first] if kind in _WORDS_FIRST else first


def _second(key: tuple[int, ...], words: Words) -> Any:
    kind, _, second = key
    if not second:
        return None
    return words.at[second - 1] if kind == ObjectKind.METHOD_OF else second - 1
