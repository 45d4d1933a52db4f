"""What each file says, until it is its turn: in memory while it is little, then in a file."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile

from coatcheck.codegraph.disk.column import Disk, room_on_disk

_SMALL = 1024 * 1024


class Shelf:
    """Keeps bytes by number."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file = SpooledTemporaryFile(_SMALL)  # noqa: SIM115 - it ends with the shelf
        self._ends = disk.column("q", 1)

    @property
    def count(self) -> int:
        """How many there are; the next has this number."""
        return self._ends.count - 1

    def put(self, content: bytes) -> int:
        """Keep bytes and return their number."""
        self._disk.take(len(content))
        self._file.seek(0, 2)
        with room_on_disk():
            self._file.write(content)
        self._ends.append(self._file.tell())
        return self._ends.count - 2

    def get(self, number: int) -> bytes:
        """Return the bytes that have a number."""
        start, end = self._ends.numbers[number], self._ends.numbers[number + 1]
        self._file.seek(start)
        return self._file.read(end - start)

    def __del__(self) -> None:
        self._file.close()
