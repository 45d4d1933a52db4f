"""A bucket whose blobs can only be read with a key; how, says `coatcheck.crypto.encryption`.

What was put before there was a key is given out as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from coatcheck.blobs.base import BlobWriter, Bucket
from coatcheck.crypto.encryption import HEADER, MAGIC, PIECE, TAG, Keyring
from coatcheck.errors import BlobDamaged


class EncryptedBucket:
    """Seals what goes into another bucket, and opens what comes out."""

    def __init__(self, bucket: Bucket, keys: Keyring) -> None:
        self._bucket = bucket
        self._keys = keys

    @property
    def place(self) -> str:
        """Where it is."""
        return self._bucket.place

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Seal and write."""
        self._bucket.put(key, self._keys.seal_stream(key, pieces))

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Seal and write what cannot be read again."""
        self._bucket.put_once(key, self._keys.seal_stream(key, pieces))

    def writer(self, key: str) -> BlobWriter:
        """Seal pieces as they are sent, and write them."""
        header, seal = self._keys.sealer(key)
        inner = self._bucket.writer(key)
        next(inner)
        gathered = bytearray()
        try:
            inner.send(header)
            while (piece := (yield)) is not None:
                gathered += piece
                while len(gathered) >= PIECE:
                    inner.send(seal(bytes(gathered[:PIECE])))
                    del gathered[:PIECE]
            if gathered:
                inner.send(seal(bytes(gathered)))
            with contextlib.suppress(StopIteration):
                inner.send(None)
        finally:
            inner.close()

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read the sealed pieces that the part is in, and open them; from where they were read to
        once more, where the blob is sealed anew meanwhile.
        """
        header = self._header(key, self._bucket.size(key))
        try:
            for piece in self._opened(key, header, start, stop):
                start += len(piece)
                yield piece
        except BlobDamaged:
            now = self._header(key, self._bucket.size(key))
            if now == header:
                raise
            yield from self._opened(key, now, start, stop)

    def _opened(self, key: str, header: bytes | None, start: int, stop: int) -> Iterator[bytes]:
        total = self._bucket.size(key)
        if header is None:
            yield from self._bucket.get(key, start, stop)
            return
        if start >= stop:
            return
        first, last = start // PIECE, (stop - 1) // PIECE
        sealed_from = HEADER + first * (PIECE + TAG)
        sealed_to = min(total, HEADER + (last + 1) * (PIECE + TAG))
        sealed = self._bucket.get(key, sealed_from, max(sealed_from, sealed_to))
        place = first * PIECE
        for piece in self._keys.open_stream(key, header, sealed, first):
            wanted = piece[max(0, start - place) : stop - place]
            place += len(piece)
            if wanted:
                yield wanted
        if place < stop:
            raise BlobDamaged(f"blob {key} is shorter than it was")

    def is_outdated(self, key: str) -> bool:
        """Tell whether a blob was sealed with another key than those that are sealed now; raises
        BlobGone.
        """
        header = self._header(key, self._bucket.size(key))
        return header is not None and self._keys.is_outdated(header)

    def reseal(self, key: str) -> None:
        """Seal a blob anew, in its place: who reads it meanwhile reads the one or the other."""
        self.put(key, self.get(key, 0, self.size(key)))

    def delete(self, key: str) -> None:
        """Remove what is there."""
        self._bucket.delete(key)

    def size(self, key: str) -> int:
        """Return how many bytes were put."""
        total = self._bucket.size(key)
        if self._header(key, total) is None:
            return total
        pieces = -(-(total - HEADER) // (PIECE + TAG))
        return total - HEADER - pieces * TAG

    def copy(self, key: str, to: str) -> None:
        """Seal it for its other key."""
        self.put(to, self.get(key, 0, self.size(key)))

    def sign(self, key: str, seconds: float) -> None:
        """Return nothing: what others write there would not be sealed."""

    def check(self) -> None:
        """Raise what keeps blobs from being written."""
        self._bucket.check()

    def _header(self, key: str, total: int) -> bytes | None:
        if total < HEADER:
            return None
        header = b"".join(self._bucket.get(key, 0, HEADER))
        return header if header.startswith(MAGIC) else None
