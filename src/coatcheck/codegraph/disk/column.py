"""Numbers one after the other, in memory while they are few and in a file from then on.

A column is made by a `Disk`, which knows how much all of them may take up there. Its numbers are a
memoryview of the room there is, of which `count` are in use; what has not been used is 0. It is
another view whenever the room grows, so nobody keeps it while numbers are added.

*Memory.* Pages of the files are in memory from when they are used until the kernel needs the room
for others, which may be never: all of them would count as the process's own. So they are handed
back whenever more than `RESIDENT` of them are there. They stay in the kernel's cache, and it is a
matter of a microsecond to have one again; but now they are the first to go.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import calcsize, pack_into
from typing import IO, Literal
from weakref import WeakSet

RESIDENT = 56 * 1024 * 1024
# What all columns may take up, unless somebody says otherwise.
LARGEST = 16_000_000_000
_SMALL = 64 * 1024
# A file grows by its own size, up to this.
_STEP = 16 * 1024 * 1024
# How large the numbers are, as for an array.
Code = Literal["B", "i", "q"]
_STATM = Path("/proc/self/statm")


class NoRoomError(Exception):
    """What is known of the code finds no room on the disk."""


@contextmanager
def room_on_disk() -> Iterator[None]:
    """Say it in words of ours where a file finds no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise NoRoomError("what is known of the code finds no room on the disk") from None


class Disk:
    """Where columns are; `largest` is what all of them may take up, in bytes."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = self._left = largest
        self._files: WeakSet[MappedColumn] = WeakSet()
        # Asked so often that it stays open.
        self._statm = os.open(_STATM, os.O_RDONLY) if _STATM.exists() else -1

    def column(self, code: Code = "i", count: int = 0) -> MappedColumn:
        """Make a column of numbers that are as large as `code` says."""
        return MappedColumn(self, code, count)

    def take(self, size: int) -> None:
        """Note that a file takes up so much more."""
        if size > self._left:
            megabytes = self._largest / 1_000_000
            raise NoRoomError(
                f"what is known of the code would take up more than {megabytes:,.0f} MB of the disk"
            )
        self._left -= size

    def has(self, column: MappedColumn) -> None:
        """Note that a column is in a file from now on."""
        self._files.add(column)

    def breathe(self) -> None:
        """Hand memory back where there is more of it than need be; to be called every so often."""
        if self._files and self.resident > RESIDENT:
            self.let_go()

    @property
    def resident(self) -> int:
        """How many bytes of files are in memory for this process, 0 where nobody says."""
        if self._statm < 0:
            return 0
        return int(os.pread(self._statm, 64, 0).split()[2]) * mmap.PAGESIZE

    def let_go(self) -> None:
        """Hand all memory back; what is used again comes back."""
        for column in self._files:
            column.let_go()

    def __del__(self) -> None:
        if self._statm >= 0:
            os.close(self._statm)


class MappedColumn:
    """Numbers one after the other."""

    __slots__ = (
        "__weakref__",
        "_code",
        "_disk",
        "_file",
        "_map",
        "_size",
        "_taken",
        "count",
        "numbers",
    )

    numbers: memoryview[int]

    def __init__(self, disk: Disk, code: Code, count: int) -> None:
        self._disk = disk
        self._code = code
        self._size = calcsize(code)
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._taken = 0
        self.count = count
        self.numbers = memoryview(bytearray(8 * self._size)).cast(code)
        self.reserve(count)

    def append(self, number: int) -> None:
        """Add a number."""
        count = self.count
        if count >= len(self.numbers):
            self.reserve(count + 1)
        self.numbers[count] = number
        self.count = count + 1

    def extend(self, numbers: Sequence[int]) -> int:
        """Add several numbers and tell where they begin."""
        start = self.add(len(numbers))
        pack_into(f"{len(numbers)}{self._code}", self.numbers, start * self._size, *numbers)
        return start

    def add(self, count: int) -> int:
        """Add so many numbers, 0 unless the room was used before, and tell where they begin."""
        start = self.count
        self.count = end = start + count
        if end > len(self.numbers):
            self.reserve(end)
        return start

    def reserve(self, count: int) -> None:
        """See to it that there is room for so many."""
        if count > len(self.numbers):
            before = len(self.numbers) * self._size
            size = max(before + min(before, _STEP), count * self._size)
            if size <= _SMALL:
                grown = bytearray(size)
                grown[:before] = self.numbers.cast("B")
                self.numbers = memoryview(grown).cast(self._code)
            else:
                self._grow(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)

    def _grow(self, size: int) -> None:
        self._disk.take(size - self._taken)
        self._taken = size
        is_first = self._file is None
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it ends with this
        with room_on_disk():
            _allocate(self._file.fileno(), size)
        self._map = mmap.mmap(self._file.fileno(), size)
        numbers = memoryview(self._map).cast("B").cast(self._code)
        if is_first:
            numbers[: len(self.numbers)] = self.numbers
            self._disk.has(self)
        self.numbers = numbers

    def let_go(self) -> None:
        """Hand back the memory that the file's pages take up."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def __del__(self) -> None:
        if self._file is not None:
            self._disk.take(-self._taken)
            self._file.close()


def _allocate(file: int, size: int) -> None:
    """Make a file so large; where there is no room for it that is said now, not by a signal."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)
