"""Numbers by keys, each a tuple of as many numbers.

The keys lie one after the other as they came. Where one is found in a column of slots: each key's
number is at, or soon after, the slot that its hash names. At most half of the slots are in use;
then there are four times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from coatcheck.codegraph.disk.column import Disk

_FEWEST = 16


class Slots:
    """Where numbers from 1 on lie by the hash of what they stand for."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._column = disk.column("i", _FEWEST)
        self.numbers = self._column.numbers
        self.last = _FEWEST - 1

    def put(self, slot: int, number: int, hash_of: Callable[[int], int]) -> None:
        """Put the next number into an empty slot; there are more of them when half are full."""
        self.numbers[slot] = number
        if 2 * number > self.last:
            self._column = self._disk.column("i", 4 * (self.last + 1))
            self.numbers, self.last = self._column.numbers, self._column.count - 1
            for one in range(1, number + 1):
                slot = hash_of(one) & self.last
                while self.numbers[slot]:
                    slot = (slot + 1) & self.last
                self.numbers[slot] = one


class Keys:
    """Numbers keys from 1 on, as they come."""

    def __init__(self, disk: Disk, width: int) -> None:
        self._size = 4 * width
        key = Struct(f"{width}i")
        self._read, self._write = key.unpack_from, key.pack_into
        self._width = width
        self._keys = disk.column("i", width)
        self._slots = Slots(disk)
        self.count = 0

    def find(self, key: tuple[int, ...]) -> int:
        """Return a key's number, 0 where it is not there."""
        return self._slots.numbers[self._slot(key)]

    def number(self, key: tuple[int, ...]) -> int:
        """Return a key's number, the next one where it is not there."""
        slot = self._slot(key)
        number = self._slots.numbers[slot]
        if not number:
            self.count = number = self.count + 1
            self._keys.add(self._width)
            self._write(self._keys.numbers, number * self._size, *key)
            self._slots.put(slot, number, self._hash)
        return number

    def _slot(self, key: tuple[int, ...]) -> int:
        """Return the slot that a key is in, or would be."""
        slots, keys, read, size = self._slots, self._keys.numbers, self._read, self._size
        numbers, last = slots.numbers, slots.last
        slot = hash(key) & last
        while number := numbers[slot]:
            if read(keys, number * size) == key:
                break
            slot = (slot + 1) & last
        return slot

    def add(self, key: tuple[int, ...]) -> bool:
        """Note a key; tell whether it is new."""
        before = self.count
        return self.number(key) > before

    def key(self, number: int) -> tuple[int, ...]:
        """Return the key that has a number."""
        return self._read(self._keys.numbers, number * self._size)

    def _hash(self, number: int) -> int:
        return hash(self.key(number))


class Table:
    """Holds a number for each key that one was put at."""

    def __init__(self, disk: Disk, width: int) -> None:
        self._keys = Keys(disk, width)
        self._values = disk.column("i", 1)

    def get(self, *key: int) -> int | None:
        """Return the number at a key, None where there is none."""
        number = self._keys.find(key)
        return self._values.numbers[number] if number else None

    def put(self, key: tuple[int, ...], value: int) -> int | None:
        """Put a number at a key and return the one that was there, None where there was none."""
        number = self._keys.number(key)
        if number == self._values.count:
            self._values.append(value)
            return None
        before = self._values.numbers[number]
        self._values.numbers[number] = value
        return before

    def get_or_make(self, key: tuple[int, ...], make: Callable[[], int]) -> tuple[int, bool]:
        """Return the number at a key, made where there is none, and whether it was made."""
        number = self._keys.number(key)
        if number < self._values.count:
            return self._values.numbers[number], False
        made = make()
        self._values.append(made)
        return made, True
