"""The API that OpenAI made and many speak: POST /v1/embeddings."""

from __future__ import annotations

from typing import Any

from coatcheck.surfaces.ingest.embedding.endpoint import EndpointEmbedder


class OpenAIEmbedder(EndpointEmbedder):
    """Vectors by a model of an endpoint that speaks as OpenAI's."""

    path = "/v1/embeddings"

    @property
    def name(self) -> str:
        """What a collection remembers it by."""
        return f"openai:{self._model}"

    def vectors_in(self, answer: Any) -> Any:
        """Return the rows of numbers of an answer, which may come in any order."""
        return [
            each["embedding"] for each in sorted(answer["data"], key=lambda each: each["index"])
        ]
