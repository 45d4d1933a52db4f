"""Names, keys and paths by number, so that what is kept of the code is numbers.

A word is a text, a number that is written out, or nothing. All words lie one after the other as
bytes, and are found by their hash as keys are (tables.py).
"""

from __future__ import annotations

from typing import Any

from coatcheck.surfaces.graphs.analysis.disk.column import Disk
from coatcheck.surfaces.graphs.analysis.disk.lately import Lately

Word = int | str | None

_FEWEST_SLOTS = 1024


class Words(Lately[Word, int]):
    """Gives each word its number, when it is first asked for; `at[number]` is the word."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(self._number)
        self._disk = disk
        self._bytes = disk.column("B")
        self._starts = disk.column("q", 1)
        self._slots = disk.column("i", _FEWEST_SLOTS)
        # Any: whoever asks knows what a number stands for.
        self.at: Lately[int, Any] = Lately(self._word)

    @property
    def count(self) -> int:
        """How many words there are."""
        return self._starts.count - 1

    def _number(self, word: Word) -> int:
        written = _written(word)
        slots, last = self._slots.numbers, self._slots.count - 1
        slot = hash(written) & last
        while number := slots[slot]:
            if self._at(number - 1) == written:
                return number - 1
            slot = (slot + 1) & last
        start = self._bytes.add(len(written))
        self._bytes.numbers[start : start + len(written)] = written
        number = self._starts.count
        self._starts.append(self._bytes.count)
        slots[slot] = number
        if 2 * number > last:
            self._grow()
        return number - 1

    def _at(self, number: int) -> bytes:
        starts = self._starts.numbers
        return bytes(self._bytes.numbers[starts[number] : starts[number + 1]])

    def _word(self, number: int) -> Word:
        return _read(self._at(number))

    def _grow(self) -> None:
        self._slots = self._disk.column("i", 4 * self._slots.count)
        slots, last = self._slots.numbers, self._slots.count - 1
        for number in range(self.count):
            slot = hash(self._at(number)) & last
            while slots[slot]:
                slot = (slot + 1) & last
            slots[slot] = number + 1


def _written(word: Word) -> bytes:
    if isinstance(word, str):
        return b"s" + word.encode("utf-8", "surrogatepass")
    # By sixteens: ten thousand digits are no number to Python otherwise.
    return b"" if word is None else b"i" + hex(word).encode()


def _read(written: bytes) -> Word:
    if written[:1] == b"s":
        return written[1:].decode("utf-8", "surrogatepass")
    return int(written[1:], 16) if written else None
