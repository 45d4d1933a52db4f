"""What calls to an endpoint that embeds have in common, and what its answers mean.

- No connection, no answer in time, 408, 425, 429 or 5xx: it may be otherwise later, and
  EmbedderUnreachable says so.
- Any other status but 200: it does not do this. EmbedderRefused says it in the endpoint's words.
- 200, and not a vector for each text: what answers there is something else; EmbedderRefused.

No address is shown, since it may hold a password, and never a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np

from coatcheck.surfaces.ingest.embedding.base import (
    EmbedderRefused,
    EmbedderUnreachable,
    Vector,
    Vectors,
)
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings

# An endpoint on a slow machine may have to load its model first.
TIMEOUT_S = 120.0
CONNECT_TIMEOUT_S = 10.0
AGAIN_LATER = frozenset({408, 425, 429})
MOST_WORDS_SHOWN = 300
PROBE = "dimensions"


class EndpointEmbedder(ABC):
    """An embedder that asks an endpoint; subclasses know its words."""

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
        """What a collection remembers it by."""

    @abstractmethod
    def vectors_in(self, answer: Any) -> Any:
        """Return the rows of numbers of an answer; raises KeyError or TypeError where none are."""

    async def dimensions(self) -> int:
        """Return how many numbers a vector has; the first time the endpoint is asked."""
        if self._dimensions is None:
            await self.embed_query(PROBE)
        assert self._dimensions is not None
        return self._dimensions

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a text."""
        vector: Vector = (await self.embed_passages([text]))[0]
        return vector

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each passage, in their order."""
        if not texts:
            return np.empty((0, await self.dimensions()), dtype=np.float32)
        answer = await self._ask({"model": self._model, "input": list(texts)})
        try:
            vectors = np.asarray(self.vectors_in(answer), dtype=np.float32)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise self._odd() from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise self._odd()
        self._dimensions = vectors.shape[1]
        return vectors

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, question: dict[str, Any]) -> Any:
        try:
            answer = await self._client.post(self._url, json=question)
        except httpx2.HTTPError as error:
            # Nothing of the address is shown: it may hold a password.
            raise EmbedderUnreachable(
                f"the embedder at INGEST_EMBED_URL does not answer: {type(error).__name__}"
            ) from error
        if answer.status_code in AGAIN_LATER or answer.status_code >= 500:
            raise EmbedderUnreachable(
                f"the embedder at INGEST_EMBED_URL cannot embed now: {_words_of(answer)}"
            )
        if answer.status_code != 200:
            raise EmbedderRefused(
                f"the embedder at INGEST_EMBED_URL does not embed with {self._model!r}: "
                f"{_words_of(answer)}"
            )
        try:
            return answer.json()
        except ValueError as error:
            raise self._odd() from error

    def _odd(self) -> EmbedderRefused:
        return EmbedderRefused(
            f"what answers at INGEST_EMBED_URL gives no vectors by {self._model!r}: look whether "
            "the address and INGEST_EMBEDDER are right"
        )


def _words_of(answer: httpx2.Response) -> str:
    """Return an endpoint's own words: {"error": "..."}, {"error": {"message": "..."}} or none."""
    try:
        error = answer.json()["error"]
        words = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        words = ""
    return f"{answer.status_code} {str(words)[:MOST_WORDS_SHOWN]}".strip()
