"""Helpers that put documents into an index and search it.

The vector of a text depends only on its words, so texts with the same words are near each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from coatcheck.ids import UlidGenerator
from coatcheck.surfaces.ingest.document import Chunk
from coatcheck.surfaces.ingest.index.base import (
    Index,
    Mode,
    NewDocument,
    Query,
    SearchHit,
    document_id,
)

DIMENSIONS = 24
EMBEDDER = "words-of-tests"
T0 = 1_800_000_000_000

new_version = UlidGenerator()


def vector_of(text: str) -> NDArray[np.float32]:
    total = np.zeros(DIMENSIONS, dtype=np.float32)
    for word in text.lower().split():
        seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:4])
        total += np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return total


def document_vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([vector_of(text) for text in texts], dtype=np.float32).reshape(
        len(texts), DIMENSIONS
    )


def chunks_of(texts: Sequence[str], first: int = 0) -> list[Chunk]:
    return [
        Chunk(ordinal=number, text=text, start=10 * number, end=10 * number + len(text), page=None)
        for number, text in enumerate(texts, first)
    ]


class Library:
    """An index with shortcuts for tests."""

    def __init__(self, index: Index) -> None:
        self.index = index

    async def stage(
        self,
        name: str,
        texts: Sequence[str],
        version: str,
        *,
        tenant: str = "ann",
        collection: str = "docs",
        first: int = 0,
        now: int = T0,
    ) -> None:
        await self.index.stage(
            tenant,
            document_id(tenant, collection, name),
            version,
            chunks_of(texts, first),
            document_vectors(texts),
            now,
        )

    async def publish(
        self,
        name: str,
        passages: int,
        version: str,
        *,
        tenant: str = "ann",
        collection: str = "docs",
        metadata: Mapping[str, str] | None = None,
        embedder: str = EMBEDDER,
        dimensions: int = DIMENSIONS,
        now: int = T0,
    ) -> bool:
        new = NewDocument(
            tenant=tenant,
            id=document_id(tenant, collection, name),
            collection=collection,
            name=name,
            title=name.title(),
            format="text",
            language="en",
            sha256=hashlib.sha256(name.encode()).hexdigest(),
            size=passages,
            embedder=embedder,
            dimensions=dimensions,
            metadata=metadata or {},
        )
        return await self.index.publish(new, version, passages, now)

    async def put(
        self,
        name: str,
        *texts: str,
        tenant: str = "ann",
        collection: str = "docs",
        metadata: Mapping[str, str] | None = None,
        version: str | None = None,
        now: int = T0,
    ) -> str:
        version = version or new_version()
        await self.stage(name, texts, version, tenant=tenant, collection=collection, now=now)
        await self.publish(
            name,
            len(texts),
            version,
            tenant=tenant,
            collection=collection,
            metadata=metadata,
            now=now,
        )
        return document_id(tenant, collection, name)

    async def search(
        self,
        text: str,
        mode: Mode = Mode.TEXT,
        *,
        k: int = 10,
        tenant: str = "ann",
        collection: str = "docs",
        only: Mapping[str, str] | None = None,
        embedder: str = EMBEDDER,
    ) -> list[SearchHit]:
        vector = None if mode is Mode.TEXT else vector_of(text)
        query = Query(text, k, mode, vector, embedder, only or {})
        return await self.index.search(tenant, collection, query)

    async def names(self, text: str, mode: Mode = Mode.TEXT, **how: object) -> set[str]:
        return {found.name for found in await self.search(text, mode, **how)}  # type: ignore[arg-type]
