"""A set of numbers above 0 that takes eight to 32 bytes for each; Python's own takes about 80."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

# Neighbours in number are kept apart: what comes together is often numbered together.
_SPREAD = 0x9E3779B1


class Known:
    """Knows which numbers it has seen. Each lies at, or soon after, where it belongs."""

    __slots__ = ("_count", "_slots")

    def __init__(self, numbers: Iterable[int]) -> None:
        self._slots = array("i", bytes(4 * 64))
        self._count = 0
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> bool:
        """Note a number; tell whether it is new."""
        slots = self._slots
        last = len(slots) - 1
        slot = (number * _SPREAD >> 7) & last
        while seen := slots[slot]:
            if seen == number:
                return False
            slot = (slot + 1) & last
        slots[slot] = number
        self._count += 1
        if 2 * self._count > last:
            self._grow()
        return True

    def _grow(self) -> None:
        before = self._slots
        self._slots = array("i", bytes(4 * 4 * len(before)))
        self._count = 0
        for number in before:
            if number:
                self.add(number)
