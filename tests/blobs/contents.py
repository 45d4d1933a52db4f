"""Contents of blobs, and their digests."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from coatcheck.blobs.base import BlobDigest

KEY = "jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/0123456789abcdef"


PLENTY = 1 << 40


def content_of(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


async def stream_of(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def digest_of(content: bytes) -> BlobDigest:
    return BlobDigest(len(content), hashlib.sha256(content).hexdigest())
