"""The search, on one connection and in one transaction that sees one state of the tables."""

from __future__ import annotations

import json
import math
from typing import Any

from coatcheck.surfaces.ingest.index.base import (
    LONGEST_QUERY,
    CollectionRow,
    Mode,
    Query,
    SearchHit,
)
from coatcheck.surfaces.ingest.index.postgres.schema import IndexStatements
from coatcheck.surfaces.ingest.index.ranks import (
    Placed,
    by_words,
    check_collection,
    depth_of,
    fuse,
)
from coatcheck.surfaces.ingest.index.rows import read_found
from coatcheck.surfaces.ingest.index.staged import can_match, unit
from coatcheck.surfaces.ingest.index.words import choices, most_passages, query_words


class PostgresSearch:
    """One search; where a filter is given, only among the documents that have what it asks for."""

    def __init__(
        self, connection: Any, sql: IndexStatements, query: Query, exact_up_to: int, shortlist: int
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._query = query
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._key = 0
        self._whole = 0  # passages of the collection
        self._passages = 0  # those of them that the filter leaves
        self._among: list[int] | None = None  # documents

    async def run(self, tenant: str, name: str) -> list[SearchHit]:
        """Find passages of a collection."""
        await self._choose(tenant, name)
        if self._among == []:
            return []
        depth = depth_of(self._query)
        rankings = []
        if self._query.mode is not Mode.VECTOR:
            rankings.append(await self._by_words(depth))
        if self._query.mode is not Mode.TEXT:
            rankings.append(await self._by_vectors(depth))
        return await self._found(fuse(rankings, self._query.k))

    async def _choose(self, tenant: str, name: str) -> None:
        row = await self._connection.fetchrow(self._sql.collections, tenant, name)
        collection = None if row is None else CollectionRow(*tuple(row)[1:])
        self._whole = check_collection(collection, name, self._query).passages
        self._passages = self._whole
        self._key = row["key"]
        if self._query.filter:
            matching = []
            if can_match(self._query.filter):
                wanted = json.dumps(dict(self._query.filter))
                matching = await self._connection.fetch(self._sql.matching, self._key, wanted)
            self._among = [row["key"] for row in matching]
            self._passages = sum(row["passages"] for row in matching)

    async def _by_words(self, depth: int) -> list[Placed]:
        words = [f"{self._key}.{word}" for word in query_words(self._query.text[:LONGEST_QUERY])]
        counts: dict[str, int] = dict(await self._connection.fetch(self._sql.how_many_have, words))
        for choice in choices(counts, most_passages(self._whole)):
            between = " & " if choice.every else " | "
            found = await self._connection.fetch(
                self._sql.by_words,
                between.join(f"'{word}'" for word in choice.words),
                [f"'{word}'" for word in choice.words],
                [math.log1p(self._whole / counts[word]) for word in choice.words],
                self._among,
                depth,
            )
            if found:
                of_passages = ((key, set(words)) for key, words in found)
                return by_words(of_passages, counts, self._whole, self._query.mode)
        return []

    async def _by_vectors(self, depth: int) -> list[Placed]:
        assert self._query.vector is not None
        vector = unit(self._query.vector)
        if vector is None:
            return []
        values = (self._key, vector.tolist(), self._among, depth)
        if self._passages <= self._exact_up_to:
            return await self._placed(self._sql.by_vectors, *values)
        return await self._placed(self._sql.by_signs, *values, self._shortlist)

    async def _placed(self, sql: str, *values: Any) -> list[Placed]:
        return [(row[0], 1.0) for row in await self._connection.fetch(sql, *values)]

    async def _found(self, best: list[tuple[int, float]]) -> list[SearchHit]:
        rows = await self._connection.fetch(self._sql.passages, [key for key, _ in best])
        by_key = {row["key"]: tuple(row)[1:] for row in rows}
        return [read_found(score, by_key[key]) for key, score in best]
