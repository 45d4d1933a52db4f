"""Transactions that change what a search finds: publish and delete documents."""

from __future__ import annotations

import apsw

from coatcheck.surfaces.ingest.index.base import (
    CollectionRow,
    NewDocument,
    check_embedder,
)
from coatcheck.surfaces.ingest.index.passages import check_staged, dump_metadata, storable
from coatcheck.surfaces.ingest.index.sqlite.connection import SQL

PASSAGE_RANGE = 1 << 32  # the range of a collection's passage keys


def publish(
    connection: apsw.Connection, new: NewDocument, version: str, passages: int, now: int
) -> bool:
    """Make a version's staged passages the document."""
    of_version = {"tenant": new.tenant, "document": new.id, "version": version}
    before = connection.execute(SQL.version, {"tenant": new.tenant, "id": new.id}).fetchone()
    if before is not None and before[1] >= version:
        connection.execute(SQL.discard, of_version)
        return bool(before[1] == version)
    collection, next_passage = _collection(connection, new, now)
    staged = connection.execute(
        SQL.staged_totals, {**of_version, "dimensions": new.dimensions}
    ).fetchone()
    assert staged is not None
    check_staged(staged, passages, new.dimensions)
    if before is not None:
        _delete_passages(connection, before[0])
    key = connection.execute(
        SQL.upsert_document,
        {
            "tenant": new.tenant,
            "id": new.id,
            "collection": collection,
            "name": new.name,
            "title": storable(new.title),
            "format": new.format,
            "language": new.language,
            "sha256": new.sha256,
            "size": new.size,
            "metadata": dump_metadata(new.metadata),
            "version": version,
            "passages": passages,
            "now": now,
        },
    ).get
    values = {**of_version, "key": key, "first": collection * PASSAGE_RANGE + next_passage}
    connection.execute(SQL.insert_passages, {**values, "collection": collection})
    connection.execute(SQL.insert_words, {"key": key})
    connection.execute(SQL.insert_vectors, values)
    connection.execute(SQL.insert_signs, values)
    connection.execute(SQL.advance_next_passage, {"collection": collection, "passages": passages})
    connection.execute(SQL.discard, of_version)
    return True


def delete(connection: apsw.Connection, tenant: str, document: str) -> bool:
    """Delete a document, and its collection if it was the last one."""
    row = connection.execute(SQL.version, {"tenant": tenant, "id": document}).fetchone()
    if row is None:
        return False
    _delete_passages(connection, row[0])
    collection = connection.execute(SQL.delete_document, {"key": row[0]}).get
    connection.execute(SQL.delete_empty_collection, {"collection": collection})
    return True


def _collection(connection: apsw.Connection, new: NewDocument, now: int) -> tuple[int, int]:
    """Return the key of the document's collection and the number of its next passage."""
    row = connection.execute(
        SQL.collection_to_update, {"tenant": new.tenant, "name": new.collection}
    ).fetchone()
    if row is not None:
        key, embedder, dimensions, next_passage = row
        known = CollectionRow(new.collection, embedder, dimensions, 0, 0, 0)
        check_embedder(known, new.embedder, new.dimensions)
        return key, next_passage
    values = {"tenant": new.tenant, "name": new.collection, "embedder": new.embedder}
    added = {**values, "dimensions": new.dimensions, "now": now}
    return connection.execute(SQL.add_collection, added).get, 0


def _delete_passages(connection: apsw.Connection, key: int) -> None:
    # The words first: FTS5 reads them from the passages to delete them.
    connection.execute(SQL.delete_words, {"key": key})
    connection.execute(SQL.delete_vectors, {"key": key})
    connection.execute(SQL.delete_signs, {"key": key})
    connection.execute(SQL.delete_passages, {"key": key})
