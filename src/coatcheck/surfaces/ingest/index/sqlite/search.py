"""The search, on one connection and in one transaction."""

from __future__ import annotations

import json
from typing import Any

import apsw

from coatcheck.surfaces.ingest.index.base import (
    LONGEST_QUERY,
    CollectionRow,
    Mode,
    Query,
    SearchHit,
)
from coatcheck.surfaces.ingest.index.ranks import (
    Placed,
    by_words,
    check_collection,
    depth_of,
    fuse,
    signs,
)
from coatcheck.surfaces.ingest.index.rows import read_found
from coatcheck.surfaces.ingest.index.sqlite.connection import SQL
from coatcheck.surfaces.ingest.index.sqlite.publish import PASSAGES_EACH
from coatcheck.surfaces.ingest.index.staged import can_match, unit
from coatcheck.surfaces.ingest.index.words import choices, most_passages, query_words


class SQLiteSearch:
    """One search; where a filter is given, only among the documents that have what it asks for."""

    def __init__(
        self, connection: apsw.Connection, query: Query, exact_up_to: int, shortlist: int
    ) -> None:
        self._connection = connection
        self._query = query
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._key = 0
        self._whole = 0  # passages of the collection
        self._passages = 0  # those of them that the filter leaves
        self._among: list[int] | None = None  # documents

    def run(self, tenant: str, name: str) -> list[SearchHit]:
        """Find passages of a collection."""
        self._choose(tenant, name)
        if self._among == []:
            return []
        depth = depth_of(self._query)
        rankings = []
        if self._query.mode is not Mode.VECTOR:
            rankings.append(self._by_words(depth))
        if self._query.mode is not Mode.TEXT:
            rankings.append(self._by_vectors(depth))
        return self._found(fuse(rankings, self._query.k))

    def _choose(self, tenant: str, name: str) -> None:
        row = self._connection.execute(SQL.collections, {"tenant": tenant, "name": name}).fetchone()
        collection = None if row is None else CollectionRow(*row[1:])
        self._whole = check_collection(collection, name, self._query).passages
        self._passages = self._whole
        assert row is not None
        self._key = row[0]
        if self._query.filter:
            values = {"collection": self._key, "filter": json.dumps(dict(self._query.filter))}
            matching: list[Any] = []
            if can_match(self._query.filter):
                matching = self._rows(SQL.matching, values)
            self._among = [key for key, _ in matching]
            self._passages = sum(passages for _, passages in matching)

    def _by_words(self, depth: int) -> list[Placed]:
        words = [f"{self._key}.{word}" for word in query_words(self._query.text[:LONGEST_QUERY])]
        asked = {"words": json.dumps(words)}
        known = dict(self._rows(SQL.how_many_have, asked))
        counts = {word: known.get(word, 0) for word in words}
        for choice in choices(counts, most_passages(self._whole)):
            between = " AND " if choice.every else " OR "
            match = between.join(f'"{word}"' for word in choice.words)
            values = {"match": match, "depth": depth, "among": self._among_documents()}
            rows = self._rows(SQL.by_words, values)
            if rows:
                found = ((key, set(written.split())) for key, written in rows)
                return by_words(found, counts, self._whole, self._query.mode)
        return []

    def _by_vectors(self, depth: int) -> list[Placed]:
        assert self._query.vector is not None
        vector = unit(self._query.vector)
        if vector is None:
            return []
        first = self._key * PASSAGES_EACH
        last = first + PASSAGES_EACH - 1
        written = vector.tobytes()
        if self._passages <= self._exact_up_to:
            return self._placed(SQL.by_vectors, first=first, last=last, vector=written, depth=depth)
        near = self._placed(
            SQL.by_signs,
            first=first,
            last=last,
            signs=signs(vector).tobytes(),
            depth=self._shortlist,
        )
        return self._placed(
            SQL.by_vectors_near,
            near=json.dumps([key for key, _ in near]),
            vector=written,
            depth=depth,
        )

    def _placed(self, sql: str, **values: Any) -> list[Placed]:
        given = {**values, "among": self._among_documents()}
        return [(key, 1.0) for (key,) in self._rows(sql, given)]

    def _rows(self, sql: str, values: dict[str, Any]) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def _among_documents(self) -> str | None:
        return None if self._among is None else json.dumps(self._among)

    def _found(self, best: list[tuple[int, float]]) -> list[SearchHit]:
        keys = json.dumps([key for key, _ in best])
        rows = {row[0]: row[1:] for row in self._rows(SQL.passages, {"keys": keys})}
        return [read_found(score, rows[key]) for key, score in best]
