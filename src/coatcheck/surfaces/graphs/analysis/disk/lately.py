"""What was read lately."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Lately(dict[_Key, _Value]):
    """Reads what it is asked for and does not have; forgets everything when that is much."""

    def __init__(self, read: Callable[[_Key], _Value], most: int = 16_384) -> None:
        super().__init__()
        self._read = read
        self._most = most

    def __missing__(self, key: _Key) -> _Value:
        value = self._read(key)
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value
