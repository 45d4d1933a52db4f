"""Embedders that call an endpoint: Ollama's own API, and the one of OpenAI.

- No connection, a timeout, 408, 425, 429 or 5xx: EmbedderUnreachable, because it may succeed later.
- Any other status but 200: EmbedderRejected, with the endpoint's own message.
- 200 without a vector for each text: EmbedderRejected, because something else responded.

Errors never show the URL, which may contain a password, nor a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np

from coatcheck.surfaces.ingest.embedding.base import (
    EmbedderRejected,
    EmbedderUnreachable,
    Vector,
    Vectors,
)
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings

# An endpoint on a slow machine may have to load its model first.
TIMEOUT_S = 120.0
CONNECT_TIMEOUT_S = 10.0
RETRYABLE = frozenset({408, 425, 429})
MAX_MESSAGE_LENGTH = 300
PROBE = "dimensions"


class EndpointEmbedder(ABC):
    """An embedder that calls an endpoint; subclasses define the format."""

    path: str

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._model = settings.model
        self._url = settings.url + self.path
        self._dimensions: int | None = None
        secret = settings.secret if settings.key else ""
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        )

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that a collection records."""

    @abstractmethod
    def vectors_in(self, response: Any) -> Any:
        """Return the rows of numbers in a response; raise KeyError or TypeError if it has none."""

    async def dimensions(self) -> int:
        """Return the length of a vector; the first call asks the endpoint."""
        if self._dimensions is None:
            await self.embed_query(PROBE)
        assert self._dimensions is not None
        return self._dimensions

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a text."""
        vector: Vector = (await self.embed_passages([text]))[0]
        return vector

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each passage, in order."""
        if not texts:
            return np.empty((0, await self.dimensions()), dtype=np.float32)
        response = await self._post({"model": self._model, "input": list(texts)})
        try:
            vectors = np.asarray(self.vectors_in(response), dtype=np.float32)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise self._invalid_response() from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise self._invalid_response()
        self._dimensions = vectors.shape[1]
        return vectors

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, request: dict[str, Any]) -> Any:
        try:
            response = await self._client.post(self._url, json=request)
        except httpx2.HTTPError as error:
            # The URL is not shown: it may contain a password.
            raise EmbedderUnreachable(
                f"the embedder at INGEST_EMBED_URL does not respond: {type(error).__name__}"
            ) from error
        if response.status_code in RETRYABLE or response.status_code >= 500:
            raise EmbedderUnreachable(
                f"the embedder at INGEST_EMBED_URL cannot embed now: {_message_of(response)}"
            )
        if response.status_code != 200:
            raise EmbedderRejected(
                f"the embedder at INGEST_EMBED_URL does not embed with {self._model!r}: "
                f"{_message_of(response)}"
            )
        try:
            return response.json()
        except ValueError as error:
            raise self._invalid_response() from error

    def _invalid_response(self) -> EmbedderRejected:
        return EmbedderRejected(
            f"the response from INGEST_EMBED_URL has no vectors by {self._model!r}: check that "
            "the URL and INGEST_EMBEDDER are right"
        )


class OllamaEmbedder(EndpointEmbedder):
    """Embeds with a model of an Ollama server (POST /api/embed)."""

    path = "/api/embed"

    @property
    def name(self) -> str:
        """The name that a collection records."""
        return f"ollama:{self._model}"

    def vectors_in(self, answer: Any) -> Any:
        """Return the rows of numbers in a response."""
        return answer["embeddings"]


class OpenAIEmbedder(EndpointEmbedder):
    """Embeds with a model behind an OpenAI-compatible endpoint (POST /v1/embeddings)."""

    path = "/v1/embeddings"

    @property
    def name(self) -> str:
        """The name that a collection records."""
        return f"openai:{self._model}"

    def vectors_in(self, answer: Any) -> Any:
        """Return the rows of numbers in a response, which may come in any order."""
        return [
            each["embedding"] for each in sorted(answer["data"], key=lambda each: each["index"])
        ]


def _message_of(response: httpx2.Response) -> str:
    """Return the endpoint's message: {"error": "..."}, {"error": {"message": "..."}} or none."""
    try:
        error = response.json()["error"]
        message = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        message = ""
    return f"{response.status_code} {str(message)[:MAX_MESSAGE_LENGTH]}".strip()
