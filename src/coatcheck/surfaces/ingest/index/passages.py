"""Passages as they are staged, the same for both stores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coatcheck.errors import InvalidInput
from coatcheck.surfaces.ingest.document import Chunk
from coatcheck.surfaces.ingest.index.base import PassageKey, StagedGone, Vector, Vectors
from coatcheck.surfaces.ingest.index.words import split_words


@dataclass(frozen=True, slots=True)
class StagedPassage:
    """A passage with its words and its vector."""

    ordinal: int
    text: str
    start: int
    end: int
    page: int | None
    headings: str  # a JSON array
    words: list[str]
    vector: Vector | None  # a unit vector; None if the embedder returned zeros


def build_passages(chunks: Sequence[Chunk], vectors: Vectors) -> list[StagedPassage]:
    """Build passages from chunks and their vectors; raise InvalidInput if the two do not match."""
    if len(chunks) != len(vectors) or (len(chunks) and vectors.ndim != 2):
        raise InvalidInput(f"{len(chunks)} passages need as many vectors, not {len(vectors)}")
    if not np.isfinite(vectors).all():
        raise InvalidInput("a vector has a number that is not finite")
    return [_build_passage(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]


def check_staged(staged: tuple[int, int, int], passages: int, dimensions: int) -> None:
    """Raise unless this many passages are staged without a gap, with vectors of this length.

    `staged` is a row of the query `staged_totals`: the count, the highest ordinal plus one, and the
    number of vectors of another length.
    """
    count, until, mismatched = staged
    if count != passages or until != passages:
        raise StagedGone(
            f"only {count} of {passages} passages are staged: the others must be embedded again"
        )
    if mismatched:
        raise InvalidInput(f"{mismatched} staged vectors do not have {dimensions} dimensions")


def unit_vector(vector: Vector) -> Vector | None:
    """Scale a vector to length 1; return None for a zero vector."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return None if length == 0 else (vector / length).astype(np.float32)


def storable(text: str) -> str:
    """Replace characters that databases reject; the length stays the same."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text


def dump_metadata(metadata: Mapping[str, str]) -> str:
    """Serialize metadata as JSON."""
    return json.dumps({storable(name): storable(text) for name, text in metadata.items()})


def can_match(filter_: Mapping[str, str]) -> bool:
    """Report whether a filter could match stored metadata."""
    return all(storable(text) == text for pair in filter_.items() for text in pair)


def passage_key(chunk: Chunk) -> PassageKey:
    """Return the key by which a chunk's vector is reused."""
    return storable(chunk.text), json.dumps([storable(each) for each in chunk.headings])


def _build_passage(chunk: Chunk, vector: Vector) -> StagedPassage:
    text, headings = passage_key(chunk)
    return StagedPassage(
        ordinal=chunk.ordinal,
        text=text,
        start=chunk.start,
        end=chunk.end,
        page=chunk.page,
        headings=headings,
        words=split_words("\n".join((*map(storable, chunk.headings), chunk.text))),
        vector=unit_vector(vector),
    )
