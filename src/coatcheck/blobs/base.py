"""Bucket: what a place for bytes must be able to do, and nothing about what the bytes are for.

All of it is blocking and may be called from any thread; `Blobs` calls it from threads of its own.
A key is made by us, never by a user: segments of letters, digits and dashes, joined by slashes.

- `put` is all or nothing: until it has returned, nothing can be read under the key, whatever
  crashes; once it has returned, the bytes survive a crash of the machine.
- What fails because the place is away is tried again, three times in all, with pauses. Whoever can
  give the pieces once more does that (`Blobs`). Pieces that come only once, such as an upload while
  it arrives, are given to `put_once`: there it is the bucket's business, as far as it goes through
  a network. What was sent stays sent, and only the part that failed is sent again.
- `writer` takes pieces one at a time, each from any thread. Between two pieces it holds no thread,
  so a client that sends slowly costs an open file, and not one of a few threads.
- `get` and `delete` raise BlobGone for a key that is not there (a `delete` need not).
- Whatever else keeps it from working raises BlobStoreUnavailable: it may work once somebody has
  made room, or corrected a right.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

# How much is read, hashed and written at a time.
PIECE = 1 << 20


# Started with `next`; takes pieces by `send`. None commits the blob and ends the generator; `close`
# discards what was written.
BlobWriter = Generator[None, bytes | None, None]


class BlobRetryPolicy(NamedTuple):
    """How often something is tried in all, and how long the pauses are, which double."""

    tries: int = 3
    first_pause_s: float = 1.0
    longest_pause_s: float = 10.0


class Bucket(Protocol):
    """A place for bytes."""

    @property
    def place(self) -> str:
        """Where it is, for people: nothing that could hold a password."""
        ...

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write what the pieces come to; if they raise, nothing is written and that is raised."""
        ...

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Do the same with pieces that cannot be read again: what fails of them is tried again."""
        ...

    def writer(self, key: str) -> BlobWriter:
        """Write pieces as they are sent: all of them, once None is sent, or nothing."""
        ...

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read the bytes from `start` up to `stop`, which is not beyond the end."""
        ...

    def delete(self, key: str) -> None:
        """Remove what is there."""
        ...

    def size(self, key: str) -> int:
        """Return how many bytes a blob has; raises BlobGone."""
        ...

    def copy(self, key: str, to: str) -> None:
        """Write what is under one key under another as well; raises BlobGone."""
        ...

    def sign(self, key: str, seconds: float) -> SignedAddress | None:
        """Return an address that anybody can write this one blob to, for a while; None where there
        is no such thing.
        """
        ...

    def check(self) -> None:
        """Raise what keeps blobs from being written; nothing is left behind."""
        ...


class BlobDigest(NamedTuple):
    """What was written: how many bytes, and their SHA-256 in hexadecimal."""

    size: int
    sha256: str


class SignedAddress(NamedTuple):
    """Where bytes can be put by whoever knows it, and the headers that have to go with them."""

    url: str
    headers: Mapping[str, str]
