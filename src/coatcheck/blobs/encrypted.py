"""A bucket whose blobs are encrypted at rest (`coatcheck.crypto.encryption`).

Blobs that were written before there was a key are returned as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from coatcheck.blobs.base import BlobWriter, Bucket
from coatcheck.crypto.encryption import HEADER, MAGIC, PIECE, TAG, Keyring
from coatcheck.errors import BlobDamaged


class EncryptedBucket:
    """Encrypts blobs on their way into another bucket, and decrypts them on their way out."""

    def __init__(self, bucket: Bucket, keys: Keyring) -> None:
        self._bucket = bucket
        self._keys = keys

    @property
    def location(self) -> str:
        """The location of the bucket."""
        return self._bucket.location

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Encrypt and write a blob."""
        self._bucket.put(key, self._keys.encrypt_stream(key, pieces))

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Encrypt and write a blob that can be read only once."""
        self._bucket.put_once(key, self._keys.encrypt_stream(key, pieces))

    def writer(self, key: str) -> BlobWriter:
        """Encrypt and write pieces as they are sent."""
        header, encrypt = self._keys.stream_encryptor(key)
        inner = self._bucket.writer(key)
        next(inner)
        buffer = bytearray()
        try:
            inner.send(header)
            while (piece := (yield)) is not None:
                buffer += piece
                while len(buffer) >= PIECE:
                    inner.send(encrypt(bytes(buffer[:PIECE])))
                    del buffer[:PIECE]
            if buffer:
                inner.send(encrypt(bytes(buffer)))
            with contextlib.suppress(StopIteration):
                inner.send(None)
        finally:
            inner.close()

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read and decrypt the pieces that contain the range. If the blob is re-encrypted in the
        meantime, continue with the new one.
        """
        header = self._header(key, self._bucket.size(key))
        try:
            for piece in self._decrypted(key, header, start, stop):
                start += len(piece)
                yield piece
        except BlobDamaged:
            now = self._header(key, self._bucket.size(key))
            if now == header:
                raise
            yield from self._decrypted(key, now, start, stop)

    def _decrypted(self, key: str, header: bytes | None, start: int, stop: int) -> Iterator[bytes]:
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
        offset = first * PIECE
        for piece in self._keys.decrypt_stream(key, header, sealed, first):
            wanted = piece[max(0, start - offset) : stop - offset]
            offset += len(piece)
            if wanted:
                yield wanted
        if offset < stop:
            raise BlobDamaged(f"blob {key} is truncated")

    def is_outdated(self, key: str) -> bool:
        """Return whether a blob is encrypted with another key than the current one; raise
        BlobGone.
        """
        header = self._header(key, self._bucket.size(key))
        return header is not None and self._keys.is_outdated(header)

    def reencrypt(self, key: str) -> None:
        """Encrypt a blob again, in place. A concurrent reader sees the old or the new one."""
        self.put(key, self.get(key, 0, self.size(key)))

    def delete(self, key: str) -> None:
        """Delete a blob."""
        self._bucket.delete(key)

    def size(self, key: str) -> int:
        """Return the size of a blob before encryption."""
        total = self._bucket.size(key)
        if self._header(key, total) is None:
            return total
        pieces = -(-(total - HEADER) // (PIECE + TAG))
        return total - HEADER - pieces * TAG

    def copy(self, key: str, to: str) -> None:
        """Encrypt a copy for its other key."""
        self.put(to, self.get(key, 0, self.size(key)))

    def sign(self, key: str, seconds: float) -> None:
        """Return None: clients would write unencrypted bytes."""

    def check(self) -> None:
        """Raise the error that prevents writing blobs, if any."""
        self._bucket.check()

    def _header(self, key: str, total: int) -> bytes | None:
        if total < HEADER:
            return None
        header = b"".join(self._bucket.get(key, 0, HEADER))
        return header if header.startswith(MAGIC) else None
