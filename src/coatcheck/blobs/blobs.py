"""Blobs: a bucket for asyncio, with what every bucket needs around it.

Whatever is put is hashed and counted on the way, a piece at a time, and refused as soon as it is
more than allowed. What fails because the store is away is tried again, three times in all with
pauses that double. Where the bytes come from a stream that cannot be read twice, the bucket does
that with the part that failed. What is not there is not tried again.

The blocking calls run in a few threads of their own, apart from those that asyncio lends out: an
object store that hangs must not take these from everybody. A stream takes a thread for each full
piece, and for the end of the blob, and none while it waits for its client: any number of slow
clients leave the threads to the others.
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
    """Puts, reads and deletes blobs."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._bucket = bucket
        self._patience = BlobRetryPolicy()
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="coatcheck-blobs")
        self._streams = ThreadPoolExecutor(STREAM_THREADS, thread_name_prefix="coatcheck-streams")

    @property
    def place(self) -> str:
        """Where the blobs are, for people."""
        return self._bucket.place

    def close(self) -> None:
        """Let the threads end; what is under way is not waited for."""
        for threads in (self._threads, self._streams):
            threads.shutdown(wait=False, cancel_futures=True)

    async def put(self, key: str, source: Source, limit: int) -> BlobDigest:
        """Write a blob of at most `limit` bytes; raises TooLarge, and whatever the source does."""
        if isinstance(source, AsyncIterator):
            return await self._put_stream(key, source, limit)
        beginning = _Beginning(source)
        if not beginning.can_be_read_again:
            return await self._run(lambda: self._put_once(key, beginning.pieces(), limit))
        return await self._persist(
            lambda: self._run(lambda: self._put(key, beginning.pieces(), limit))
        )

    async def get(self, key: str, size: int, sha256: str) -> bytes:
        """Read a whole blob; raises BlobGone, and BlobDamaged if it is not what was written."""

        def read() -> bytes:
            content = b"".join(self._bucket.get(key, 0, size))
            if hashlib.sha256(content).hexdigest() != sha256:
                raise BlobDamaged(f"blob {key} is not what was written")
            return content

        return await self._persist(lambda: self._run(read))

    async def stream(self, key: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Open a blob and iterate over what lies between two places, in pieces.

        Raises BlobGone before the first piece, not after it. A stream that breaks off goes on from
        where it was.
        """

        async def begin() -> tuple[Iterator[bytes], bytes]:
            pieces = self._bucket.get(key, start, stop)
            return pieces, await self._run(lambda: next(pieces, b""))

        pieces, first = await self._persist(begin)
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
                following = await self.stream(key, start, stop)
                async for piece in following:
                    yield piece
                return

    async def fetch(self, key: str, size: int, sha256: str, path: Path) -> None:
        """Write a blob to a file; raises BlobGone, and BlobDamaged if it is not what it was."""

        def fetch() -> None:
            counted = _Counted(self._bucket.get(key, 0, size), size)
            with path.open("wb") as file:
                for piece in counted:
                    file.write(piece)
            if counted.written() != (size, sha256):
                raise BlobDamaged(f"blob {key} is not what was written")

        await self._persist(lambda: self._run(fetch))

    async def copy(self, key: str, to: str, most: int) -> BlobDigest:
        """Copy a blob that somebody else has written, and count and hash the copy; raises BlobGone,
        and TooLarge for more than `most` bytes, which are not copied.
        """

        def copy() -> BlobDigest:
            if self._bucket.size(key) > most:
                raise TooLarge(f"this is more than the {most:,} bytes that are allowed")
            self._bucket.copy(key, to)
            counted = _Counted(self._bucket.get(to, 0, self._bucket.size(to)), most)
            for _ in counted:
                continue
            return counted.written()

        return await self._persist(lambda: self._run(copy))

    async def sign(self, key: str, seconds: float) -> SignedAddress | None:
        """Return an address that a blob can be written to, where there is such a thing."""
        return await self._run(lambda: self._bucket.sign(key, seconds))

    async def delete(self, key: str) -> None:
        """Remove a blob; one that is not there is as good as removed."""
        with contextlib.suppress(BlobGone):
            await self._persist(lambda: self._run(lambda: self._bucket.delete(key)))

    async def is_outdated(self, key: str) -> bool:
        """Tell whether a blob is sealed with an older key; raises BlobGone."""
        bucket = self._bucket
        if not isinstance(bucket, EncryptedBucket):
            return False
        return await self._persist(lambda: self._run(lambda: bucket.is_outdated(key)))

    async def reseal(self, key: str) -> None:
        """Seal a blob anew; raises BlobGone, BlobDamaged, KeyMissing."""
        bucket = self._bucket
        if isinstance(bucket, EncryptedBucket):
            await self._persist(lambda: self._run(lambda: bucket.reseal(key)))

    async def check(self) -> None:
        """Raise what keeps blobs from being written."""
        await self._run(self._bucket.check)

    # --- writing

    def _put(self, key: str, pieces: Iterable[bytes], limit: int) -> BlobDigest:
        counted = _Counted(pieces, limit)
        self._bucket.put(key, counted)
        return counted.written()

    def _put_once(self, key: str, pieces: Iterable[bytes], limit: int) -> BlobDigest:
        counted = _Counted(pieces, limit)
        self._bucket.put_once(key, counted)
        return counted.written()

    async def _put_stream(self, key: str, source: AsyncIterator[bytes], limit: int) -> BlobDigest:
        """Write what arrives while it arrives, a full piece at a time."""
        tally = _Tally(limit)
        piece = await _next_piece(source)
        writer = self._bucket.writer(key)
        try:
            await self._run_stream(lambda: next(writer))
            while piece is not None:
                await self._run_stream(partial(_send_counted, writer, tally, piece))
                piece = await _next_piece(source)
            await self._run_stream(lambda: _commit(writer))
        except BaseException:
            await asyncio.shield(self._run_stream(writer.close))
            raise
        return tally.written()

    async def _run_stream(self, work: Callable[[], T]) -> T:
        """Run a turn of a stream to its end: its writer cannot be closed in the middle of one."""
        turn = asyncio.get_running_loop().run_in_executor(self._streams, work)
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            await asyncio.wait([turn])
            raise

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _persist(self, verb: Callable[[], Awaitable[T]]) -> T:
        tries, pause, longest = self._patience
        for left in range(tries, 0, -1):
            try:
                return await verb()
            except BlobStoreUnavailable:
                if left == 1:
                    raise
                await self._sleep(pause * random.uniform(1.0, 1.5))  # noqa: S311 - no secret
                pause = min(longest, pause * 2)
        raise AssertionError("unreachable")


def _send_counted(writer: BlobWriter, tally: _Tally, piece: bytes) -> None:
    tally.add(piece)
    writer.send(piece)


def _commit(writer: BlobWriter) -> None:
    with contextlib.suppress(StopIteration):
        writer.send(None)


class _Beginning:
    """Where a source begins, to read it from there as often as it takes."""

    def __init__(self, source: Data) -> None:
        self._source = source
        self._offset = 0
        self.can_be_read_again = True
        if not isinstance(source, (bytes, bytearray, memoryview, Path)):
            self.can_be_read_again = source.seekable()
            self._offset = source.tell() if self.can_be_read_again else 0

    def pieces(self) -> Iterator[bytes]:
        source = self._source
        if not isinstance(source, (bytes, bytearray, memoryview, Path)) and self.can_be_read_again:
            source.seek(self._offset)
        return pieces_of(source)


def pieces_of(source: Data) -> Iterator[bytes]:
    """Read bytes, a file that is named or one that is open, a piece at a time."""
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
            raise TypeError("open the file in binary mode: it gives text, not bytes")
        yield piece


async def _next_piece(source: AsyncIterator[bytes]) -> bytes | None:
    """Gather what comes into pieces that are worth a turn of another thread."""
    gathered = io.BytesIO()
    async for piece in source:
        gathered.write(piece)
        if gathered.tell() >= PIECE:
            break
    return gathered.getvalue() or None


class _Tally:
    """Counts and hashes pieces."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._hash = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        """Count a piece; raises TooLarge."""
        self._size += len(piece)
        if self._size > self._limit:
            raise TooLarge(f"this is more than the {self._limit:,} bytes that are allowed")
        self._hash.update(piece)

    def written(self) -> BlobDigest:
        return BlobDigest(self._size, self._hash.hexdigest())


class _Counted(_Tally):
    """Passes pieces on, and knows how much that was and its hash."""

    def __init__(self, pieces: Iterable[bytes], limit: int) -> None:
        super().__init__(limit)
        self._pieces = iter(pieces)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.add(piece)
            yield piece
