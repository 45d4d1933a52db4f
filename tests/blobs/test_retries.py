"""An unavailable blob store is retried; a missing blob is not."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest

from coatcheck.blobs.base import BlobWriter
from coatcheck.blobs.blobs import Blobs, Source
from coatcheck.blobs.files import FileBucket
from coatcheck.errors import BlobGone, BlobStoreUnavailable

pytestmark = pytest.mark.anyio

KEY = "jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/0123456789abcdef"


class Flaky(FileBucket):
    """A folder that is unavailable this many times, each time after it has taken the first
    piece.
    """

    def __init__(self, folder: Path, failures: int) -> None:
        super().__init__(folder)
        self.left = failures
        self.asked = 0

    def writer(self, key: str) -> BlobWriter:
        self.asked += 1
        inner = super().writer(key)
        next(inner)
        try:
            while True:
                piece = yield
                if self.left:
                    self.left -= 1
                    raise BlobStoreUnavailable("away")
                inner.send(piece)
        except StopIteration:
            return
        finally:
            inner.close()

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        yield from self._broken(super().get(key, start, stop))

    def _broken(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        self.asked += 1
        for piece in pieces:
            if self.left:
                self.left -= 1
                raise BlobStoreUnavailable("away")
            yield piece


def flaky(folder: Path, failures: int) -> tuple[Blobs, Flaky, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    bucket = Flaky(folder, failures)
    return Blobs(bucket, sleep=sleep), bucket, pauses


@pytest.mark.parametrize("what", ["bytes", "file"])
async def test_a_write_is_tried_three_times_from_the_start(  # G24
    tmp_path: Path, what: str
) -> None:
    blobs, bucket, pauses = flaky(tmp_path, 2)
    source: Source = b"all of it" if what == "bytes" else io.BytesIO(b"all of it")

    put = await blobs.put(KEY, source, 100)

    assert (put.size, bucket.asked) == (9, 3)
    assert await blobs.get(KEY, put.size, put.sha256) == b"all of it"
    assert 1.0 <= pauses[0] <= 1.5 < 2.0 <= pauses[1] <= 3.0  # G24


async def test_an_operation_fails_after_three_attempts(tmp_path: Path) -> None:
    blobs, bucket, _ = flaky(tmp_path, 3)
    with pytest.raises(BlobStoreUnavailable):
        await blobs.put(KEY, b"x", 100)
    assert bucket.asked == 3


async def test_a_one_time_source_is_read_once(tmp_path: Path) -> None:
    """There the parts of an object are retried: see test_flaky_s3.py."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    async def arriving() -> AsyncIterator[bytes]:
        yield b"x"

    for source in (Pipe(b"x"), arriving()):
        blobs, bucket, pauses = flaky(tmp_path, 1)
        with pytest.raises(BlobStoreUnavailable):
            await blobs.put(KEY, source, 100)
        assert (bucket.asked, pauses) == (1, [])


async def test_a_read_is_retried_unless_the_blob_is_missing(tmp_path: Path) -> None:  # G24
    blobs, bucket, pauses = flaky(tmp_path, 0)
    put = await blobs.put(KEY, b"x", 100)
    bucket.left, bucket.asked = 1, 0
    assert await blobs.get(KEY, put.size, put.sha256) == b"x"
    assert (bucket.asked, len(pauses)) == (2, 1)
    await blobs.delete(KEY)
    bucket.asked = 0
    with pytest.raises(BlobGone):
        await blobs.get(KEY, put.size, put.sha256)
    assert (bucket.asked, len(pauses)) == (1, 1)


async def test_an_interrupted_stream_is_resumed(tmp_path: Path) -> None:
    blobs, bucket, _ = flaky(tmp_path, 0)
    content = bytes(range(256)) * 16_384  # four pieces
    await blobs.put(KEY, content, len(content))
    pieces = await blobs.stream(KEY, 10, len(content))
    read = [await anext(pieces)]
    bucket.left = 1
    read += [piece async for piece in pieces]
    assert b"".join(read) == content[10:]
