"""Many short lists of numbers in one column.

A run is as many numbers one after the other, with their count before them; it is known by where
that is, which is never 0: that is a run of nothing. There is room for two, four, eight and so on: a
run that is full moves to room for twice as many, and the next that needs what it leaves gets it.
"""

from __future__ import annotations

from coatcheck.codegraph.disk.column import Code, Disk


class IntLists:
    """Holds runs of numbers; `code` says how large they may be."""

    def __init__(self, disk: Disk, code: Code = "i") -> None:
        self._column = disk.column(code, 1)
        # By the room that they had.
        self._left: dict[int, list[int]] = {}

    @property
    def size(self) -> int:
        """How many numbers there is room for in all runs."""
        return self._column.count

    def start(self, first: int, second: int) -> int:
        """Start a run of two numbers and tell where it is."""
        run = self._free(2)
        numbers = self._column.numbers
        numbers[run] = 2
        numbers[run + 1] = first
        numbers[run + 2] = second
        return run

    def append(self, run: int, number: int) -> int:
        """Add a number at a run's end and tell where it is from then on."""
        if not run:
            run, size = self._free(2), 0
        else:
            size = self._column.numbers[run]
            if size > 1 and not size & (size - 1):
                run = self._move(run, size)
        numbers = self._column.numbers
        numbers[run] = size + 1
        numbers[run + 1 + size] = number
        return run

    def of(self, run: int) -> list[int]:
        """Return the numbers of a run."""
        if not run:
            return []
        numbers = self._column.numbers
        return numbers[run + 1 : run + 1 + numbers[run]].tolist()

    def count(self, run: int) -> int:
        """Return how many numbers a run has."""
        return self._column.numbers[run] if run else 0

    def drop(self, run: int) -> None:
        """Give up a run."""
        size = max(2, self._column.numbers[run])
        self._left.setdefault(1 << (size - 1).bit_length(), []).append(run)

    def _free(self, room: int) -> int:
        left = self._left.get(room)
        return left.pop() if left else self._column.add(1 + room)

    def _move(self, full: int, size: int) -> int:
        run = self._free(2 * size)
        numbers = self._column.numbers
        numbers[run : run + 1 + size] = numbers[full : full + 1 + size]
        self._left.setdefault(size, []).append(full)
        return run
