"""Numbers that wait, alone or several together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from struct import Struct

from coatcheck.codegraph.disk.column import Disk

_MANY = 8_192


class Queue:
    """First in, first out: from `front`, as long as it can be filled, and in with `append`.

    Those that come wait at the back, in memory; where they are many, they are moved to a column.
    """

    def __init__(self, disk: Disk) -> None:
        self.front: deque[int] = deque()
        self._between = disk.column()
        self._first = 0
        self._back: list[int] = []
        self.append = self._back.append

    def fill(self) -> bool:
        """Let some come to the front, which is empty; tell whether there are any."""
        between, start = self._between, self._first
        if between.count:
            self._first = end = min(start + _MANY, between.count)
            self.front.extend(between.numbers[start:end])
            if end == between.count:
                self._first = between.count = 0
        elif self._back:
            self.front.extend(self._back)
            self._back.clear()
        else:
            return False
        return True

    def breathe(self) -> None:
        """Move those at the back where they are many; to be called every so often."""
        if len(self._back) >= _MANY:
            self._between.extend(self._back)
            self._back.clear()


class Rows:
    """Tuples of as many numbers each, in the order that they came."""

    def __init__(self, disk: Disk, width: int) -> None:
        self._column = disk.column()
        self._width = width
        row = Struct(f"{width}i")
        self._read, self._write = row.unpack_from, row.pack_into

    def append(self, *row: int) -> None:
        """Add a row."""
        start = self._column.add(self._width)
        self._write(self._column.numbers, 4 * start, *row)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for start in range(0, self._column.count, self._width):
            yield self._read(self._column.numbers, 4 * start)
