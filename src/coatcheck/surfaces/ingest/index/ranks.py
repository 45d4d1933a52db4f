"""What a search does on every store alike: checking the question, and one ranking out of two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from coatcheck.errors import InvalidInput, NotFound
from coatcheck.surfaces.ingest.index.base import (
    MOST_RESULTS,
    CollectionRow,
    EmbedderMismatch,
    Mode,
    Query,
    Vector,
)
from coatcheck.surfaces.ingest.index.words import share

Placed = tuple[int, float]  # a passage, and how much its place counts

# Reciprocal rank fusion: far enough down a ranking, one place more or less says little. Where that
# begins, and how a place by words is weighed, was chosen on a labelled set; see
# docs/decisions/0024-embedding-and-search.md.
FUSION = 10
# Up to so many passages every vector is compared. Beyond it, their signs are compared first, which
# are a thirty-second of the bytes, and of the nearest by those so many are compared in full.
EXACT_UP_TO = 10_000
SHORTLIST = 2_000


def check_query(query: Query) -> None:
    """Raise InvalidInput unless the question can be answered."""
    if not 1 <= query.k <= MOST_RESULTS:
        raise InvalidInput(f"k is between 1 and {MOST_RESULTS}, not {query.k}")
    if query.mode is Mode.TEXT:
        return
    if query.vector is None or query.embedder is None:
        raise InvalidInput(f"a search by {query.mode} needs the vector of its text, and by whom")
    if query.vector.ndim != 1 or not np.isfinite(query.vector).all():
        raise InvalidInput("the vector of a search is a row of finite numbers")


def check_collection(collection: CollectionRow | None, name: str, query: Query) -> CollectionRow:
    """Return the collection; raise unless it is there and has vectors to compare with."""
    if collection is None:
        raise NotFound(f"there is no collection {name!r}")
    if query.mode is not Mode.TEXT:
        assert query.vector is not None
        assert query.embedder is not None
        if (query.embedder, len(query.vector)) != (collection.embedder, collection.dimensions):
            raise EmbedderMismatch(
                f"the collection {name!r} has vectors by {collection.embedder} "
                f"({collection.dimensions} dimensions), and the search one by {query.embedder} "
                f"({len(query.vector)}): search by text, or ingest its documents again"
            )
    return collection


def depth_of(query: Query) -> int:
    """Return how far down each ranking is read."""
    return query.k if query.mode is not Mode.HYBRID else max(50, 2 * query.k)


def fuse(rankings: Sequence[Sequence[Placed]], k: int) -> list[tuple[int, float]]:
    """Return the best of several rankings with their scores, from 0 to 1.

    A passage gets of each ranking what its place is worth there, times its weight; first in all of
    them, with all the weight, is 1.
    """
    scores: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for place, (key, weight) in enumerate(ranking):
            scores[key] += weight * (FUSION + 1) / (FUSION + 1 + place) / len(rankings)
    best = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
    return [(key, round(score, 6)) for key, score in best[:k]]


def by_words(
    found: Iterable[tuple[int, Collection[str]]],
    counts: Mapping[str, int],
    passages: int,
    mode: Mode,
) -> list[Placed]:
    """Return the ranking by words of what was found, from the words that each passage has.

    Beside the ranking by vectors, a passage weighs by the share it has of the query, squared: of a
    question in other words than the answer's only the commonplace ones are found, in passages that
    have nothing to do with it, and without the weight these took half of the best places.
    """
    if mode is Mode.TEXT:
        return [(key, 1.0) for key, _ in found]
    return [(key, share(counts, passages, words) ** 2) for key, words in found]


def signs(vectors: Vector) -> NDArray[np.uint8]:
    """Return the signs of vectors, eight in a byte, what is missing to the last one 0."""
    return np.packbits(vectors > 0, axis=-1)
