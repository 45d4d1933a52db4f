"""The Embedder protocol and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coatcheck.errors import CoatcheckError, Fail, Retry, StoreUnavailable

Vector = NDArray[np.float32]
Vectors = NDArray[np.float32]  # one row per text


class EmbedderUnreachable(StoreUnavailable):
    """The embedding endpoint does not respond, or cannot embed at the moment."""

    code = "embedder-unreachable"


class EmbedderRejected(CoatcheckError):
    """The embedding endpoint rejects the request: unknown model, or invalid key."""

    code = "embedder-refused"


class Embedder(Protocol):
    """Embeds texts. While `name` stays the same, equal texts have equal vectors.

    Raises EmbedderUnreachable if a later attempt may succeed, EmbedderRejected otherwise.
    """

    @property
    def name(self) -> str:
        """The name that a collection records."""
        ...

    async def dimensions(self) -> int:
        """Return the length of a vector; may call the endpoint."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each passage, in order."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a query, to compare with those of passages."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@contextmanager
def embedder_errors_as_signals() -> Iterator[None]:
    """Translate an embedder's error into a signal to the job: retry, or fail."""
    try:
        yield
    except EmbedderUnreachable as error:
        # Nothing was embedded, so the attempt does not count.
        raise Retry(str(error), counts=False) from error
    except EmbedderRejected as error:
        raise Fail(error.code, str(error)) from error


def passage_text(text: str, headings: Sequence[str]) -> str:
    """Return the text to embed for a passage: its headings and itself."""
    return "\n".join((" > ".join(headings), text)) if headings else text
