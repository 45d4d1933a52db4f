"""Many short lists of numbers in one array.

A run is as many numbers one after the other, with their count before them; it is known by where
that is. There is room for two, four, eight and so on: a run that is full moves to room for twice as
many, and the next that needs what it leaves gets it. A list of Python's own takes 56 bytes before
anything is in it, and 32 more for each number; here they take four.
"""

from __future__ import annotations

from array import array
from struct import Struct


class Runs:
    """Holds runs of numbers; `code` says how large they may be, as for an array."""

    def __init__(self, code: str = "i") -> None:
        self.numbers = array(code)
        self._pair = Struct(f"3{code}").pack
        # By the room that they had.
        self._left: dict[int, list[int]] = {2: []}

    def start(self, first: int, second: int) -> int:
        """Start a run of two numbers and tell where it is."""
        numbers = self.numbers
        if not self._left[2]:
            run = len(numbers)
            numbers.frombytes(self._pair(2, first, second))
            return run
        run = self._left[2].pop()
        numbers[run] = 2
        numbers[run + 1] = first
        numbers[run + 2] = second
        return run

    def append(self, run: int, number: int) -> int:
        """Add a number at a run's end and tell where it is from then on."""
        numbers = self.numbers
        size = numbers[run]
        if not size & (size - 1):
            run = self._move(run, size)
        numbers[run] = size + 1
        numbers[run + 1 + size] = number
        return run

    def of(self, run: int) -> array[int]:
        """Return the numbers of a run."""
        start = run + 1
        return self.numbers[start : start + self.numbers[run]]

    def drop(self, run: int) -> None:
        """Give up a run."""
        size = self.numbers[run]
        self._left.setdefault(1 << (size - 1).bit_length(), []).append(run)

    def _move(self, full: int, size: int) -> int:
        numbers = self.numbers
        held = numbers[full : full + 1 + size]
        self._left.setdefault(size, []).append(full)
        left = self._left.get(2 * size)
        if left:
            run = left.pop()
            numbers[run : run + 1 + size] = held
        else:
            run = len(numbers)
            numbers.extend(held)
            numbers.extend(held[1:])  # whatever it is, it makes room
        return run
