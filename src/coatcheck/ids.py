"""ULIDs: 48 bits of milliseconds, then 80 random bits, in Crockford's base 32.

Within a process they are strictly increasing, even within one millisecond and if the wall clock
steps back: the generator then counts up from its last ULID, as the ULID specification allows.
Between processes the order is accurate to the millisecond.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from functools import lru_cache

from coatcheck.clock import Clock, SystemClock

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 80
_LOW = (1 << 50) - 1
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
ULID_LENGTH = 26


class UlidGenerator:
    """Generates strictly increasing ULIDs. Thread-safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last = -1

    def __call__(self) -> str:
        """Return the next ULID."""
        return _encode(self._take(1))

    def consecutive(self, count: int) -> list[str]:
        """Return this many ULIDs without gaps."""
        first = self._take(count)
        return [_encode(first + step) for step in range(count)]

    def _take(self, count: int) -> int:
        now = self._clock.now()
        with self._lock:
            if now > self._last >> _RANDOM_BITS:
                first = (now << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
            else:
                # The same millisecond, or a clock that stepped back: count up to keep the order.
                first = self._last + 1
            self._last = first + count - 1
        return first


def _encode(value: int) -> str:
    low = value & _LOW
    return (
        f"{_beginning(value >> 50)}{_PAIRS[low >> 40]}{_PAIRS[low >> 30 & 1023]}"
        f"{_PAIRS[low >> 20 & 1023]}{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
    )


@lru_cache(maxsize=16)
def _beginning(value: int) -> str:
    # The ids of one millisecond, and those of a batch, share a prefix.
    return "".join(_PAIRS[value >> shift & 1023] for shift in range(70, -10, -10))


def is_ulid(text: str) -> bool:
    """Return whether a text is a well-formed ULID in upper case."""
    return len(text) == ULID_LENGTH and text[0] <= "7" and all(letter in _VALUES for letter in text)


def ulid_time(ulid: str) -> int:
    """Return the time of a ULID in milliseconds since the epoch."""
    return _decode(ulid[:10])


def ulids_from(first: str, count: int) -> list[str]:
    """Return this many ULIDs without gaps, starting with a given one."""
    start = _decode(first)
    return [_encode(start + step) for step in range(count)]


def _decode(text: str) -> int:
    value = 0
    for letter in text:
        value = value << 5 | _VALUES[letter]
    return value


def first_ulid_at(milliseconds: int) -> str:
    """Return the smallest ULID of a millisecond, a lower bound for ids created from then on."""
    return _encode(max(0, milliseconds) << _RANDOM_BITS)


def derived_ulid(milliseconds: int, *parts: str) -> str:
    """Return a ULID that is determined by a time and these texts."""
    text = "\0".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=_RANDOM_BITS // 8).digest()
    return _encode(max(0, milliseconds) << _RANDOM_BITS | int.from_bytes(digest))
