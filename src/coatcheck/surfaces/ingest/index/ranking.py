"""Search logic that both stores share: checking a query, and fusing two rankings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from coatcheck.errors import InvalidInput, NotFound
from coatcheck.surfaces.ingest.index.base import (
    MAX_RESULTS,
    CollectionRow,
    EmbedderMismatch,
    Mode,
    Query,
    Vector,
)
from coatcheck.surfaces.ingest.index.words import query_coverage

Ranked = tuple[int, float]  # a passage and the weight of its rank

# Reciprocal rank fusion: far down a ranking, one rank more or less matters little. This constant
# and the weights of word ranks were chosen on a labelled set; see
# docs/decisions/0024-embedding-and-search.md.
FUSION_CONSTANT = 10
# Up to this many passages, all vectors are compared. Beyond that, their signs are compared first (a
# thirty-second of the bytes), and the vectors of the nearest SHORTLIST are compared in full.
EXACT_UP_TO = 10_000
SHORTLIST = 2_000


def check_query(query: Query) -> None:
    """Raise InvalidInput if the query is invalid."""
    if not 1 <= query.k <= MAX_RESULTS:
        raise InvalidInput(f"k must be between 1 and {MAX_RESULTS}, not {query.k}")
    if query.mode is Mode.TEXT:
        return
    if query.vector is None or query.embedder is None:
        raise InvalidInput(f"a {query.mode} search needs the vector of its text and an embedder")
    if query.vector.ndim != 1 or not np.isfinite(query.vector).all():
        raise InvalidInput("the vector of a search must be a row of finite numbers")


def check_collection(collection: CollectionRow | None, name: str, query: Query) -> CollectionRow:
    """Return the collection; raise if it does not exist or its vectors are not comparable."""
    if collection is None:
        raise NotFound(f"there is no collection {name!r}")
    if query.mode is not Mode.TEXT:
        assert query.vector is not None
        assert query.embedder is not None
        if (query.embedder, len(query.vector)) != (collection.embedder, collection.dimensions):
            raise EmbedderMismatch(
                f"the collection {name!r} has vectors by {collection.embedder} "
                f"({collection.dimensions} dimensions), and the query has one by {query.embedder} "
                f"({len(query.vector)}): use mode=text, or ingest its documents again"
            )
    return collection


def ranking_depth(query: Query) -> int:
    """Return how many entries of each ranking are read."""
    return query.k if query.mode is not Mode.HYBRID else max(50, 2 * query.k)


def fuse(rankings: Sequence[Sequence[Ranked]], k: int) -> list[tuple[int, float]]:
    """Fuse rankings; return the `k` best passages with scores from 0 to 1.

    Each ranking contributes a passage's weight, discounted by its rank. A passage that is first in
    all rankings with full weight scores 1.
    """
    scores: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, (key, weight) in enumerate(ranking):
            scores[key] += (
                weight * (FUSION_CONSTANT + 1) / (FUSION_CONSTANT + 1 + rank) / len(rankings)
            )
    best = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
    return [(key, round(score, 6)) for key, score in best[:k]]


def rank_by_words(
    found: Iterable[tuple[int, Collection[str]]],
    counts: Mapping[str, int],
    passages: int,
    mode: Mode,
) -> list[Ranked]:
    """Rank passages by the words they have.

    Next to a ranking by vectors, a passage is weighted by its squared share of the query. A query
    often paraphrases its answer, so only common words match, in unrelated passages. Without the
    weight, these took half of the best ranks.
    """
    if mode is Mode.TEXT:
        return [(key, 1.0) for key, _ in found]
    return [(key, query_coverage(counts, passages, words) ** 2) for key, words in found]


def pack_signs(vectors: Vector) -> NDArray[np.uint8]:
    """Return the signs of vectors, eight per byte, padded with zeros."""
    return np.packbits(vectors > 0, axis=-1)
