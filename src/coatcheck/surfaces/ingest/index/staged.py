"""Passages as they are staged, the same for every store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coatcheck.errors import InvalidInput
from coatcheck.surfaces.ingest.index.base import PassageKey, StagedGone, Vector, Vectors
from coatcheck.surfaces.ingest.index.words import words_in
from coatcheck.surfaces.ingest.stages import Chunk


@dataclass(frozen=True, slots=True)
class StagedPassage:
    """A passage, its words and its vector."""

    ordinal: int
    text: str
    start: int
    end: int
    page: int | None
    headings: str  # a JSON array
    words: list[str]
    vector: Vector | None  # of length 1; None where the embedder found nothing in the text


def to_stage(chunks: Sequence[Chunk], vectors: Vectors) -> list[StagedPassage]:
    """Make passages of chunks and their vectors; raises InvalidInput where they do not fit."""
    if len(chunks) != len(vectors) or (len(chunks) and vectors.ndim != 2):
        raise InvalidInput(f"{len(chunks)} passages need as many vectors, not {len(vectors)}")
    if not np.isfinite(vectors).all():
        raise InvalidInput("a vector has a number that is none")
    return [_passage(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]


def check_staged(staged: tuple[int, int, int], passages: int, dimensions: int) -> None:
    """Raise unless so many passages are staged, without a gap, and with vectors of that length.

    `staged` is what the query `staged_whole` says: how many, up to which, how many of others.
    """
    count, until, of_other_length = staged
    if count != passages or until != passages:
        raise StagedGone(
            f"{count} of {passages} passages are staged: the others have to be embedded again"
        )
    if of_other_length:
        raise InvalidInput(f"{of_other_length} staged vectors do not have {dimensions} dimensions")


def unit(vector: Vector) -> Vector | None:
    """Return a vector at length 1, so that only its direction counts; None if it has none."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return None if length == 0 else (vector / length).astype(np.float32)


def storable(text: str) -> str:
    """Return a text as every database takes it, of the same length."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text


def written_metadata(metadata: Mapping[str, str]) -> str:
    """Return metadata as JSON."""
    return json.dumps({storable(name): storable(text) for name, text in metadata.items()})


def can_match(filter_: Mapping[str, str]) -> bool:
    """Tell whether a filter names only what could have been stored."""
    return all(storable(text) == text for pair in filter_.items() for text in pair)


def passage_key(chunk: Chunk) -> PassageKey:
    """Return what the vector of a chunk is known by."""
    return storable(chunk.text), json.dumps([storable(each) for each in chunk.headings])


def _passage(chunk: Chunk, vector: Vector) -> StagedPassage:
    text, headings = passage_key(chunk)
    return StagedPassage(
        ordinal=chunk.ordinal,
        text=text,
        start=chunk.start,
        end=chunk.end,
        page=chunk.page,
        headings=headings,
        words=words_in("\n".join((*map(storable, chunk.headings), chunk.text))),
        vector=unit(vector),
    )
