"""Search on one connection and in one transaction."""

from __future__ import annotations

import json
from typing import Any

import apsw

from coatcheck.surfaces.ingest.index.base import (
    MAX_QUERY_LENGTH,
    CollectionRow,
    Mode,
    Query,
    SearchHit,
)
from coatcheck.surfaces.ingest.index.passages import can_match, unit_vector
from coatcheck.surfaces.ingest.index.ranking import (
    Ranked,
    check_collection,
    fuse,
    pack_signs,
    rank_by_words,
    ranking_depth,
)
from coatcheck.surfaces.ingest.index.rows import read_hit
from coatcheck.surfaces.ingest.index.sqlite.connection import SQL
from coatcheck.surfaces.ingest.index.sqlite.publish import PASSAGE_RANGE
from coatcheck.surfaces.ingest.index.words import common_word_threshold, query_words, word_choices


class SQLiteSearch:
    """One search, limited to matching documents if the query has a filter."""

    def __init__(
        self, connection: apsw.Connection, query: Query, exact_up_to: int, shortlist: int
    ) -> None:
        self._connection = connection
        self._query = query
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._key = 0
        self._collection_size = 0  # passages in the collection
        self._passages = 0  # passages in matching documents
        self._document_keys: list[int] | None = None  # matching documents

    def run(self, tenant: str, name: str) -> list[SearchHit]:
        """Return the best passages of a collection."""
        self._select_documents(tenant, name)
        if self._document_keys == []:
            return []
        depth = ranking_depth(self._query)
        rankings = []
        if self._query.mode is not Mode.VECTOR:
            rankings.append(self._search_words(depth))
        if self._query.mode is not Mode.TEXT:
            rankings.append(self._search_vectors(depth))
        return self._load_hits(fuse(rankings, self._query.k))

    def _select_documents(self, tenant: str, name: str) -> None:
        row = self._connection.execute(SQL.collections, {"tenant": tenant, "name": name}).fetchone()
        collection = None if row is None else CollectionRow(*row[1:])
        self._collection_size = check_collection(collection, name, self._query).passages
        self._passages = self._collection_size
        assert row is not None
        self._key = row[0]
        if self._query.filter:
            values = {"collection": self._key, "filter": json.dumps(dict(self._query.filter))}
            matching: list[Any] = []
            if can_match(self._query.filter):
                matching = self._rows(SQL.matching, values)
            self._document_keys = [key for key, _ in matching]
            self._passages = sum(passages for _, passages in matching)

    def _search_words(self, depth: int) -> list[Ranked]:
        words = [f"{self._key}.{word}" for word in query_words(self._query.text[:MAX_QUERY_LENGTH])]
        asked = {"words": json.dumps(words)}
        known = dict(self._rows(SQL.word_counts, asked))
        counts = {word: known.get(word, 0) for word in words}
        for choice in word_choices(counts, common_word_threshold(self._collection_size)):
            between = " AND " if choice.match_all else " OR "
            match = between.join(f'"{word}"' for word in choice.words)
            values = {"match": match, "depth": depth, "among": self._document_keys_json()}
            rows = self._rows(SQL.search_words, values)
            if rows:
                found = ((key, set(written.split())) for key, written in rows)
                return rank_by_words(found, counts, self._collection_size, self._query.mode)
        return []

    def _search_vectors(self, depth: int) -> list[Ranked]:
        assert self._query.vector is not None
        vector = unit_vector(self._query.vector)
        if vector is None:
            return []
        first = self._key * PASSAGE_RANGE
        last = first + PASSAGE_RANGE - 1
        written = vector.tobytes()
        if self._passages <= self._exact_up_to:
            return self._ranked(
                SQL.search_vectors, first=first, last=last, vector=written, depth=depth
            )
        near = self._ranked(
            SQL.search_signs,
            first=first,
            last=last,
            signs=pack_signs(vector).tobytes(),
            depth=self._shortlist,
        )
        return self._ranked(
            SQL.search_shortlist,
            near=json.dumps([key for key, _ in near]),
            vector=written,
            depth=depth,
        )

    def _ranked(self, sql: str, **values: Any) -> list[Ranked]:
        given = {**values, "among": self._document_keys_json()}
        return [(key, 1.0) for (key,) in self._rows(sql, given)]

    def _rows(self, sql: str, values: dict[str, Any]) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def _document_keys_json(self) -> str | None:
        return None if self._document_keys is None else json.dumps(self._document_keys)

    def _load_hits(self, best: list[tuple[int, float]]) -> list[SearchHit]:
        keys = json.dumps([key for key, _ in best])
        rows = {row[0]: row[1:] for row in self._rows(SQL.passages, {"keys": keys})}
        return [read_hit(score, rows[key]) for key, score in best]
