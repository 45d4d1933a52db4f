"""Ollama's own API: POST /api/embed."""

from __future__ import annotations

from typing import Any

from coatcheck.surfaces.ingest.embedding.endpoint import EndpointEmbedder


class OllamaEmbedder(EndpointEmbedder):
    """Vectors by a model of an Ollama."""

    path = "/api/embed"

    @property
    def name(self) -> str:
        """What a collection remembers it by."""
        return f"ollama:{self._model}"

    def vectors_in(self, answer: Any) -> Any:
        """Return the rows of numbers of an answer."""
        return answer["embeddings"]
