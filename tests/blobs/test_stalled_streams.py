"""Stalled streams hold no thread: others are written meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from coatcheck.blobs.base import PIECE
from coatcheck.blobs.blobs import Blobs
from coatcheck.errors import BlobGone

from .contents import PLENTY, content_of, digest_of, stream_of

pytestmark = pytest.mark.anyio

BEGUN = content_of(PIECE)
REST = content_of(10)


class Stalling:
    """Sources that send their start, and the rest only when released."""

    def __init__(self, count: int) -> None:
        self._let_go = asyncio.Event()
        self._stalled = asyncio.Semaphore(0)
        self._count = count

    async def source(self, beginning: bytes) -> AsyncIterator[bytes]:
        yield beginning
        self._stalled.release()
        await self._let_go.wait()
        yield REST

    async def all_stalled(self) -> None:
        async with asyncio.timeout(60):
            for _ in range(self._count):
                await self._stalled.acquire()

    def let_go(self) -> None:
        self._let_go.set()


@pytest.mark.parametrize("beginning", [b"x", BEGUN], ids=["less than a piece", "a piece"])
async def test_stalled_streams_do_not_block_others(blobs: Blobs, beginning: bytes) -> None:
    count = 70  # more than there are threads
    stalling = Stalling(count)
    slow = [
        asyncio.create_task(blobs.put(f"slow/{number}", stalling.source(beginning), PLENTY))
        for number in range(count)
    ]
    await stalling.all_stalled()

    async with asyncio.timeout(60):
        quick = await blobs.put("quick/1", stream_of(BEGUN + REST), PLENTY)
    assert quick == digest_of(BEGUN + REST)

    stalling.let_go()
    assert await asyncio.gather(*slow) == [digest_of(beginning + REST)] * count


async def test_a_stalled_stream_that_is_cancelled_leaves_nothing(blobs: Blobs) -> None:
    stalling = Stalling(1)
    slow = asyncio.create_task(blobs.put("slow/1", stalling.source(BEGUN), PLENTY))
    await stalling.all_stalled()

    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow

    with pytest.raises(BlobGone):
        await blobs.stream("slow/1", 0, 1)
