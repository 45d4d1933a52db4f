"""The guarantees of a blob store, on files and on S3."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coatcheck.blobs.base import PIECE, Bucket
from coatcheck.blobs.blobs import Blobs, Source
from coatcheck.blobs.objects import PART_BYTES
from coatcheck.errors import BlobDamaged, BlobGone, TooLarge

from .contents import KEY, PLENTY, content_of, digest_of, stream_of

pytestmark = pytest.mark.anyio


async def read(blobs: Blobs, key: str, start: int, stop: int) -> bytes:
    return b"".join([piece async for piece in await blobs.stream(key, start, stop)])


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, PART_BYTES + 5])
async def test_a_blob_can_be_read_whole_and_in_ranges_until_deleted(
    blobs: Blobs, size: int
) -> None:
    content = content_of(size)

    put = await blobs.put(KEY, content, PLENTY)

    assert put == digest_of(content)
    assert await blobs.get(KEY, put.size, put.sha256) == content
    assert await read(blobs, KEY, 0, size) == content
    assert await read(blobs, KEY, size // 3, size // 2) == content[size // 3 : size // 2]
    await blobs.delete(KEY)
    with pytest.raises(BlobGone):
        await blobs.get(KEY, put.size, put.sha256)
    await blobs.delete(KEY)


async def test_a_copy_has_its_own_digest(blobs: Blobs) -> None:
    content = content_of(PIECE + 1)
    await blobs.put(KEY, content, PLENTY)

    copied = await blobs.copy(KEY, f"{KEY}-copy", len(content))

    assert copied == digest_of(content)
    await blobs.delete(KEY)
    assert await blobs.get(f"{KEY}-copy", *copied) == content
    with pytest.raises(BlobGone):
        await blobs.copy(KEY, f"{KEY}-other", PLENTY)


async def test_a_blob_over_the_limit_is_not_copied(blobs: Blobs) -> None:
    await blobs.put(KEY, b"12345", PLENTY)
    with pytest.raises(TooLarge):
        await blobs.copy(KEY, f"{KEY}-copy", 4)
    with pytest.raises(BlobGone):
        await blobs.get(f"{KEY}-copy", *digest_of(b"12345"))


@pytest.mark.parametrize("what", ["bytearray", "memoryview", "path", "file", "stream"])
async def test_all_kinds_of_sources_are_accepted(blobs: Blobs, tmp_path: Path, what: str) -> None:
    content = content_of(2 * PIECE + 77)
    path = tmp_path / "given"
    path.write_bytes(content)
    with path.open("rb") as file:
        sources: dict[str, Source] = {
            "bytearray": bytearray(content),
            "memoryview": memoryview(content),
            "path": path,
            "file": file,
            "stream": stream_of(content),
        }
        put = await blobs.put(KEY, sources[what], PLENTY)

    assert put == digest_of(content)
    assert await blobs.get(KEY, put.size, put.sha256) == content


async def test_a_file_is_read_from_its_position(blobs: Blobs) -> None:
    file = io.BytesIO(b"skipped, kept")
    file.seek(len(b"skipped, "))
    assert await blobs.put(KEY, file, PLENTY) == digest_of(b"kept")


async def test_a_text_file_is_rejected(blobs: Blobs) -> None:
    file: Any = io.StringIO("text")
    with pytest.raises(TypeError, match="binary mode"):
        await blobs.put(KEY, file, PLENTY)
    with pytest.raises(BlobGone):
        await blobs.stream(KEY, 0, 1)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_blob_over_the_limit_is_rejected_and_removed(blobs: Blobs, streamed: bool) -> None:
    content = content_of(3 * PIECE)
    seen = 0

    async def watched() -> AsyncIterator[bytes]:
        nonlocal seen
        async for piece in stream_of(content, PIECE):
            seen += 1
            yield piece

    with pytest.raises(TooLarge):
        await blobs.put(KEY, watched() if streamed else content, PIECE)

    assert not streamed or seen <= 2, "it stopped reading"
    with pytest.raises(BlobGone):
        await blobs.stream(KEY, 0, 1)


async def test_a_source_that_fails_leaves_nothing(blobs: Blobs, bucket: Bucket) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield content_of(PART_BYTES + 1)
        raise ConnectionResetError("the uploader has left")

    with pytest.raises(ConnectionResetError):
        await blobs.put(KEY, broken(), PLENTY)
    with pytest.raises(BlobGone):
        await blobs.stream(KEY, 0, 1)


async def test_a_changed_blob_is_detected(blobs: Blobs, bucket: Bucket) -> None:
    put = await blobs.put(KEY, b"as it was", PLENTY)
    bucket.put(KEY, [b"as it is "])
    with pytest.raises(BlobDamaged):
        await blobs.get(KEY, put.size, put.sha256)


async def test_a_second_put_replaces_the_first(blobs: Blobs) -> None:
    await blobs.put(KEY, b"first", PLENTY)
    put = await blobs.put(KEY, b"second", PLENTY)
    assert await blobs.get(KEY, put.size, put.sha256) == b"second"


async def test_a_working_store_passes_its_check(blobs: Blobs) -> None:
    await blobs.check()
