"""Names, keys and paths by number, so that what is kept of the code is numbers.

A word is a text, a number that is written out, or nothing. All words lie one after the other as
bytes, and are found by their hash as keys are (tables.py).
"""

from __future__ import annotations

from typing import Any

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.lately import CachedRead, Lately
from coatcheck.codegraph.disk.tables import Slots

Word = int | str | None


class Words(Lately[Word, int]):
    """Gives each word its number, when it is first asked for; `at[number]` is the word."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._texts = _Texts(disk)
        self._slots = Slots(disk)
        # Any: whoever asks knows what a number stands for.
        self.at: Lately[int, Any] = CachedRead(self._texts.word)

    @property
    def count(self) -> int:
        """How many words there are."""
        return self._texts.count

    def read(self, word: Word) -> int:
        """Return a word's number, the next one where it is not there."""
        written = _written(word)
        numbers, last, texts = self._slots.numbers, self._slots.last, self._texts
        slot = hash(written) & last
        while number := numbers[slot]:
            if texts.bytes_of(number) == written:
                return number - 1
            slot = (slot + 1) & last
        self._slots.put(slot, texts.add(written), texts.hash_of)
        return texts.count - 1


class _Texts:
    """The bytes of words; the first has number 1 here, since slots have room for no 0."""

    def __init__(self, disk: Disk) -> None:
        self._bytes = disk.column("B")
        self._ends = disk.column("q", 1)

    @property
    def count(self) -> int:
        return self._ends.count - 1

    def add(self, written: bytes) -> int:
        start = self._bytes.add(len(written))
        self._bytes.numbers[start : start + len(written)] = written
        self._ends.append(self._bytes.count)
        return self.count

    def bytes_of(self, number: int) -> bytes:
        ends = self._ends.numbers
        return bytes(self._bytes.numbers[ends[number - 1] : ends[number]])

    def hash_of(self, number: int) -> int:
        return hash(self.bytes_of(number))

    def word(self, number: int) -> Word:
        return _read(self.bytes_of(number + 1))


def _written(word: Word) -> bytes:
    if isinstance(word, str):
        return b"s" + word.encode("utf-8", "surrogatepass")
    # By sixteens: ten thousand digits are no number to Python otherwise.
    return b"" if word is None else b"i" + hex(word).encode()


def _read(written: bytes) -> Word:
    if written[:1] == b"s":
        return written[1:].decode("utf-8", "surrogatepass")
    return int(written[1:], 16) if written else None
