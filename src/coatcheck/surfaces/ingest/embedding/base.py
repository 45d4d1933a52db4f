"""From passages to vectors: what is asked of an embedder, and what it can answer but vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coatcheck.errors import CoatcheckError, Fail, Retry, StoreUnavailable

Vector = NDArray[np.float32]
Vectors = NDArray[np.float32]  # a row for each text


class EmbedderUnreachable(StoreUnavailable):
    """The endpoint that embeds does not answer, or not now."""

    code = "embedder-unreachable"


class EmbedderRefused(CoatcheckError):
    """The endpoint that embeds does not do this: it has no such model, or takes no such key."""

    code = "embedder-refused"


class Embedder(Protocol):
    """Gives texts their vectors; the same text has the same vector as long as `name` is the same.

    Raises EmbedderUnreachable where trying later may help, EmbedderRefused where it does not.
    """

    @property
    def name(self) -> str:
        """What a collection remembers it by."""
        ...

    async def dimensions(self) -> int:
        """Return how many numbers a vector has; an endpoint may have to be asked."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each passage, in their order."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """Return the vector that passages are compared with which answer a text."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@contextmanager
def as_signals() -> Iterator[None]:
    """Say a job's handler what an embedder's error means for the job: to come back, or give up."""
    try:
        yield
    except EmbedderUnreachable as error:
        # Nothing was done, so nothing is held against the job.
        raise Retry(str(error), counts=False) from error
    except EmbedderRefused as error:
        raise Fail(error.code, str(error)) from error


def passage_text(text: str, headings: Sequence[str]) -> str:
    """Return what is embedded of a passage: itself, below the headings it stands under."""
    return "\n".join((" > ".join(headings), text)) if headings else text
