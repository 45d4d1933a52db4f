"""What was read lately."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Lately(dict[_Key, _Value], ABC):
    """Reads what it is asked for and does not have; forgets everything when that is much."""

    most = 16_384

    @abstractmethod
    def read(self, key: _Key) -> _Value:
        """Return what belongs to a key."""

    def __missing__(self, key: _Key) -> _Value:
        value = self.read(key)
        if len(self) >= self.most:
            self.clear()
        self[key] = value
        return value


class CachedRead(Lately[_Key, _Value]):
    """What a function has returned lately.

    Not a method of whoever keeps this: the two would hold each other, and their files, until
    somebody looks for garbage.
    """

    def __init__(self, read: Callable[[_Key], _Value]) -> None:
        super().__init__()
        self._function = read

    def read(self, key: _Key) -> _Value:
        """Call the function."""
        return self._function(key)
