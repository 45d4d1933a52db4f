"""The offline embedder: all-MiniLM-L6-v2 on this machine's cores.

The weights are loaded with the first text and checked against the published hashes.
docs/decisions/0024-embedding-and-search.md explains the choice of this model.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from coatcheck.surfaces.ingest.embedding.base import Vector, Vectors
from coatcheck.surfaces.ingest.embedding.minilm import DIMENSIONS, MiniLM
from coatcheck.surfaces.ingest.embedding.weights import installed_weights


class OfflineEmbedder:
    """Embeds with all-MiniLM-L6-v2 on this machine's cores."""

    name = "all-MiniLM-L6-v2"

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or installed_weights()
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, "coatcheck-embed")

    async def dimensions(self) -> int:
        """Return the length of a vector."""
        return DIMENSIONS

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each passage."""
        if not texts:
            return np.empty((0, DIMENSIONS), dtype=np.float32)
        return np.stack(await asyncio.gather(*(self.embed_query(text) for text in texts)))

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a text; the model treats passages and queries alike."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._embed, text)

    async def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(cancel_futures=True)

    def _embed(self, text: str) -> Vector:
        return _get_model(self._folder).embed(text)


_load_lock = threading.Lock()


def _get_model(folder: Path) -> MiniLM:
    with _load_lock:  # load it once, not once per thread
        return _load_model(folder)


@lru_cache(1)
def _load_model(folder: Path) -> MiniLM:
    # Passages are distributed over the cores, and each is multiplied on one core. The threads of a
    # BLAS library wait for each other by spinning, which costs more than it gains when the cores
    # are busy.
    threadpool_limits(1)
    return MiniLM.load(folder)
