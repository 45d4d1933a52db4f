"""Blobs: an asyncio interface to a bucket, with limits, hashes and retries.

Every blob is hashed and counted as it is written, one piece at a time, and rejected as soon as it
exceeds its limit. An operation that fails because the store is unavailable is tried three times in
all, with pauses that double. If the bytes come from a stream that cannot be read again, the bucket
retries the part that failed. A missing blob is not retried.

Blocking calls run in a few threads of their own, separate from asyncio's: an object store that
hangs must not block those for everybody. A stream uses a thread for each full piece and for the end
of the blob, and none while it waits for its client. So slow clients, however many, do not occupy
the threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from coatcheck.blobs.base import (
    PIECE,
    BlobDigest,
    BlobRetryPolicy,
    BlobWriter,
    Bucket,
    SignedAddress,
)
from coatcheck.blobs.encrypted import EncryptedBucket
from coatcheck.errors import BlobDamaged, BlobGone, BlobStoreUnavailable, TooLarge

T = TypeVar("T")

Data = bytes | bytearray | memoryview | Path | IO[bytes]
Source = Data | AsyncIterator[bytes]

THREADS = 8
STREAM_THREADS = 16


class Blobs:
    """Writes, reads and deletes blobs."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._bucket = bucket
        self._retry_policy = BlobRetryPolicy()
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="coatcheck-blobs")
        self._streams = ThreadPoolExecutor(STREAM_THREADS, thread_name_prefix="coatcheck-streams")

    @property
    def location(self) -> str:
        """The location of the blobs, for people."""
        return self._bucket.location

    def close(self) -> None:
        """Stop the threads. Operations in progress are not waited for."""
        for threads in (self._threads, self._streams):
            threads.shutdown(wait=False, cancel_futures=True)

    async def put(self, key: str, source: Source, limit: int) -> BlobDigest:
        """Write a blob of at most `limit` bytes; raise TooLarge, or any error of the source."""
        if isinstance(source, AsyncIterator):
            return await self._put_stream(key, source, limit)
        source_start = _RewindableSource(source)
        if not source_start.is_rewindable:
            return await self._run(lambda: self._put_once(key, source_start.pieces(), limit))
        return await self._retry(
            lambda: self._run(lambda: self._put(key, source_start.pieces(), limit))
        )

    async def get(self, key: str, size: int, sha256: str) -> bytes:
        """Read a whole blob; raise BlobGone, or BlobDamaged if its hash does not match."""

        def read() -> bytes:
            content = b"".join(self._bucket.get(key, 0, size))
            if hashlib.sha256(content).hexdigest() != sha256:
                raise BlobDamaged(f"blob {key} is not what was written")
            return content

        return await self._retry(lambda: self._run(read))

    async def stream(self, key: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Open a blob and iterate over a range of it, in pieces.

        Raise BlobGone before the first piece, not after it. A stream that breaks off is resumed.
        """

        async def begin() -> tuple[Iterator[bytes], bytes]:
            pieces = self._bucket.get(key, start, stop)
            return pieces, await self._run(lambda: next(pieces, b""))

        pieces, first = await self._retry(begin)
        return self._rest(key, pieces, first, start, stop)

    async def _rest(
        self, key: str, pieces: Iterator[bytes], piece: bytes, start: int, stop: int
    ) -> AsyncIterator[bytes]:
        while piece:
            yield piece
            start += len(piece)
            try:
                piece = await self._run(lambda: next(pieces, b""))
            except BlobStoreUnavailable:
                rest = await self.stream(key, start, stop)
                async for piece in rest:
                    yield piece
                return

    async def fetch(self, key: str, size: int, sha256: str, path: Path) -> None:
        """Write a blob to a file; raise BlobGone, or BlobDamaged if its hash does not match."""

        def fetch() -> None:
            counted = _DigestingPieces(self._bucket.get(key, 0, size), size)
            with path.open("wb") as file:
                for piece in counted:
                    file.write(piece)
            if counted.result() != (size, sha256):
                raise BlobDamaged(f"blob {key} is not what was written")

        await self._retry(lambda: self._run(fetch))

    async def copy(self, key: str, to: str, most: int) -> BlobDigest:
        """Copy a blob that a client has written, and return the digest of the copy.

        Raise BlobGone, or TooLarge for more than `most` bytes, which are not copied.
        """

        def copy() -> BlobDigest:
            if self._bucket.size(key) > most:
                raise TooLarge(f"the limit is {most:,} bytes")
            self._bucket.copy(key, to)
            counted = _DigestingPieces(self._bucket.get(to, 0, self._bucket.size(to)), most)
            for _ in counted:
                continue
            return counted.result()

        return await self._retry(lambda: self._run(copy))

    async def sign(self, key: str, seconds: float) -> SignedAddress | None:
        """Return a signed URL to which a blob can be written, if supported."""
        return await self._run(lambda: self._bucket.sign(key, seconds))

    async def delete(self, key: str) -> None:
        """Delete a blob. A missing blob is not an error."""
        with contextlib.suppress(BlobGone):
            await self._retry(lambda: self._run(lambda: self._bucket.delete(key)))

    async def is_outdated(self, key: str) -> bool:
        """Return whether a blob is encrypted with an older key; raise BlobGone if it does not
        exist.
        """
        bucket = self._bucket
        if not isinstance(bucket, EncryptedBucket):
            return False
        return await self._retry(lambda: self._run(lambda: bucket.is_outdated(key)))

    async def reencrypt(self, key: str) -> None:
        """Encrypt a blob with the current key; raise BlobGone, BlobDamaged or KeyMissing."""
        bucket = self._bucket
        if isinstance(bucket, EncryptedBucket):
            await self._retry(lambda: self._run(lambda: bucket.reencrypt(key)))

    async def check(self) -> None:
        """Raise the error that prevents writing blobs, if any."""
        await self._run(self._bucket.check)

    # --- writing

    def _put(self, key: str, pieces: Iterable[bytes], limit: int) -> BlobDigest:
        counted = _DigestingPieces(pieces, limit)
        self._bucket.put(key, counted)
        return counted.result()

    def _put_once(self, key: str, pieces: Iterable[bytes], limit: int) -> BlobDigest:
        counted = _DigestingPieces(pieces, limit)
        self._bucket.put_once(key, counted)
        return counted.result()

    async def _put_stream(self, key: str, source: AsyncIterator[bytes], limit: int) -> BlobDigest:
        """Write a stream as it arrives, one full piece at a time."""
        digest = _Digest(limit)
        piece = await _next_piece(source)
        writer = self._bucket.writer(key)
        try:
            await self._run_stream(lambda: next(writer))
            while piece is not None:
                await self._run_stream(partial(_send_counted, writer, digest, piece))
                piece = await _next_piece(source)
            await self._run_stream(lambda: _commit(writer))
        except BaseException:
            await asyncio.shield(self._run_stream(writer.close))
            raise
        return digest.result()

    async def _run_stream(self, work: Callable[[], T]) -> T:
        """Run one step of a stream to its end: its writer cannot be closed in the middle of it."""
        step = asyncio.get_running_loop().run_in_executor(self._streams, work)
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait([step])
            raise

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _retry(self, verb: Callable[[], Awaitable[T]]) -> T:
        tries, pause, longest = self._retry_policy
        for left in range(tries, 0, -1):
            try:
                return await verb()
            except BlobStoreUnavailable:
                if left == 1:
                    raise
                await self._sleep(pause * random.uniform(1.0, 1.5))  # noqa: S311 - no secret
                pause = min(longest, pause * 2)
        raise AssertionError("unreachable")


def _send_counted(writer: BlobWriter, digest: _Digest, piece: bytes) -> None:
    digest.add(piece)
    writer.send(piece)


def _commit(writer: BlobWriter) -> None:
    with contextlib.suppress(StopIteration):
        writer.send(None)


class _RewindableSource:
    """A source that can be read from its start again, if it is seekable."""

    def __init__(self, source: Data) -> None:
        self._source = source
        self._offset = 0
        self.is_rewindable = True
        if not isinstance(source, (bytes, bytearray, memoryview, Path)):
            self.is_rewindable = source.seekable()
            self._offset = source.tell() if self.is_rewindable else 0

    def pieces(self) -> Iterator[bytes]:
        source = self._source
        if not isinstance(source, (bytes, bytearray, memoryview, Path)) and self.is_rewindable:
            source.seek(self._offset)
        return pieces_of(source)


def pieces_of(source: Data) -> Iterator[bytes]:
    """Read bytes, a path or an open file in pieces."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            yield from _pieces_of(file)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        view = memoryview(source).cast("B")
        for start in range(0, len(view), PIECE):
            yield bytes(view[start : start + PIECE])
    else:
        yield from _pieces_of(source)


def _pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        if not isinstance(piece, bytes):
            raise TypeError("open the file in binary mode: it returns text, not bytes")
        yield piece


async def _next_piece(source: AsyncIterator[bytes]) -> bytes | None:
    """Collect chunks into a piece that is worth a thread switch."""
    buffer = io.BytesIO()
    async for piece in source:
        buffer.write(piece)
        if buffer.tell() >= PIECE:
            break
    return buffer.getvalue() or None


class _Digest:
    """Counts and hashes pieces."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._hash = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        """Add a piece; raise TooLarge if the limit is exceeded."""
        self._size += len(piece)
        if self._size > self._limit:
            raise TooLarge(f"the limit is {self._limit:,} bytes")
        self._hash.update(piece)

    def result(self) -> BlobDigest:
        return BlobDigest(self._size, self._hash.hexdigest())


class _DigestingPieces(_Digest):
    """Passes pieces on, and counts and hashes them."""

    def __init__(self, pieces: Iterable[bytes], limit: int) -> None:
        super().__init__(limit)
        self._pieces = iter(pieces)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.add(piece)
            yield piece
