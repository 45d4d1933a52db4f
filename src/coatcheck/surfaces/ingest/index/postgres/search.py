"""Search on one connection and in one transaction with one snapshot."""

from __future__ import annotations

import json
import math
from typing import Any

from coatcheck.surfaces.ingest.index.base import (
    MAX_QUERY_LENGTH,
    CollectionRow,
    Mode,
    Query,
    SearchHit,
)
from coatcheck.surfaces.ingest.index.passages import can_match, unit_vector
from coatcheck.surfaces.ingest.index.postgres.schema import IndexStatements
from coatcheck.surfaces.ingest.index.ranking import (
    Ranked,
    check_collection,
    fuse,
    rank_by_words,
    ranking_depth,
)
from coatcheck.surfaces.ingest.index.rows import read_hit
from coatcheck.surfaces.ingest.index.words import common_word_threshold, query_words, word_choices


class PostgresSearch:
    """One search, limited to matching documents if the query has a filter."""

    def __init__(
        self, connection: Any, sql: IndexStatements, query: Query, exact_up_to: int, shortlist: int
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._query = query
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._key = 0
        self._collection_size = 0  # passages in the collection
        self._passages = 0  # passages in matching documents
        self._document_keys: list[int] | None = None  # matching documents

    async def run(self, tenant: str, name: str) -> list[SearchHit]:
        """Return the best passages of a collection."""
        await self._select_documents(tenant, name)
        if self._document_keys == []:
            return []
        depth = ranking_depth(self._query)
        rankings = []
        if self._query.mode is not Mode.VECTOR:
            rankings.append(await self._search_words(depth))
        if self._query.mode is not Mode.TEXT:
            rankings.append(await self._search_vectors(depth))
        return await self._load_hits(fuse(rankings, self._query.k))

    async def _select_documents(self, tenant: str, name: str) -> None:
        row = await self._connection.fetchrow(self._sql.collections, tenant, name)
        collection = None if row is None else CollectionRow(*tuple(row)[1:])
        self._collection_size = check_collection(collection, name, self._query).passages
        self._passages = self._collection_size
        self._key = row["key"]
        if self._query.filter:
            matching = []
            if can_match(self._query.filter):
                wanted = json.dumps(dict(self._query.filter))
                matching = await self._connection.fetch(self._sql.matching, self._key, wanted)
            self._document_keys = [row["key"] for row in matching]
            self._passages = sum(row["passages"] for row in matching)

    async def _search_words(self, depth: int) -> list[Ranked]:
        words = [f"{self._key}.{word}" for word in query_words(self._query.text[:MAX_QUERY_LENGTH])]
        counts: dict[str, int] = dict(await self._connection.fetch(self._sql.word_counts, words))
        for choice in word_choices(counts, common_word_threshold(self._collection_size)):
            between = " & " if choice.match_all else " | "
            found = await self._connection.fetch(
                self._sql.search_words,
                between.join(f"'{word}'" for word in choice.words),
                [f"'{word}'" for word in choice.words],
                [math.log1p(self._collection_size / counts[word]) for word in choice.words],
                self._document_keys,
                depth,
            )
            if found:
                of_passages = ((key, set(words)) for key, words in found)
                return rank_by_words(of_passages, counts, self._collection_size, self._query.mode)
        return []

    async def _search_vectors(self, depth: int) -> list[Ranked]:
        assert self._query.vector is not None
        vector = unit_vector(self._query.vector)
        if vector is None:
            return []
        values = (self._key, vector.tolist(), self._document_keys, depth)
        if self._passages <= self._exact_up_to:
            return await self._ranked(self._sql.search_vectors, *values)
        return await self._ranked(self._sql.search_signs, *values, self._shortlist)

    async def _ranked(self, sql: str, *values: Any) -> list[Ranked]:
        return [(row[0], 1.0) for row in await self._connection.fetch(sql, *values)]

    async def _load_hits(self, best: list[tuple[int, float]]) -> list[SearchHit]:
        rows = await self._connection.fetch(self._sql.passages, [key for key, _ in best])
        by_key = {row["key"]: tuple(row)[1:] for row in rows}
        return [read_hit(score, by_key[key]) for key, score in best]
