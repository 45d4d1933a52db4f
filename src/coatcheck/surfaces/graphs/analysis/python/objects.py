"""The values that places can hold: each is made once, and is an int from then on."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class Kind(IntEnum):
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


class Objects:
    """Gives each value its number."""

    def __init__(self) -> None:
        # By kind, by what says which one it is.
        self._numbers: list[dict[Any, int]] = [{} for _ in Kind]
        self.kind: list[Kind] = []
        self.first: list[Any] = []
        self.second: list[Any] = []

    def add(self, kind: Kind, first: Any) -> int:
        """Return the number of a value that nobody makes again."""
        self.kind.append(kind)
        self.first.append(first)
        self.second.append(None)
        return len(self.kind) - 1

    def make(self, kind: Kind, first: Any, second: Any = None) -> int:
        """Return the number of a value."""
        numbers = self._numbers[kind]
        key = first if second is None else (first, second)
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(self.kind)
            self.kind.append(kind)
            self.first.append(first)
            self.second.append(second)
        return number
