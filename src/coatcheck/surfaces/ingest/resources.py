"""The index and the embedder of one process, opened on first use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from coatcheck.errors import ConfigurationError, StoreUnavailable
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.embedding.base import Embedder
from coatcheck.surfaces.ingest.embedding.open import open_embedder
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.index.base import Index
from coatcheck.surfaces.ingest.index.open import open_index


class IngestResources:
    """The index and the embedder of a surface. A process that uses neither opens neither."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.embedding = EmbeddingSettings.read(os.environ if environment is None else environment)
        self._settings: Settings | None = None
        self._index: Index | None = None
        self._embedder: Embedder | None = None
        self._opening = asyncio.Lock()

    def configure(self, settings: Settings) -> None:
        """Set the operator's settings."""
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """The operator's settings; raises ConfigurationError before `configure`."""
        if self._settings is None:
            message = "call configure(settings) before serving the surface"
            raise ConfigurationError(message)
        return self._settings

    async def index(self) -> Index:
        """Return the index; raise StoreUnavailable if it cannot be opened."""
        async with self._opening:
            if self._index is None:
                settings = self.settings
                with _as_unavailable():
                    index = open_index(settings)
                    await index.__aenter__()
                self._index = index
            return self._index

    def embedder(self) -> Embedder:
        """Return the embedder; raise StoreUnavailable if it is misconfigured."""
        if self._embedder is None:
            with _as_unavailable():
                self._embedder = open_embedder(self.embedding)
        return self._embedder

    async def close(self) -> None:
        """Close both. They are opened again on the next use."""
        if self._index is not None:
            index, self._index = self._index, None
            await index.__aexit__(None, None, None)
        if self._embedder is not None:
            embedder, self._embedder = self._embedder, None
            await embedder.close()


@contextmanager
def _as_unavailable() -> Iterator[None]:
    """Report an operator's mistake as unavailability, not as the caller's error."""
    try:
        yield
    except ConfigurationError as error:
        raise StoreUnavailable(str(error)) from error
