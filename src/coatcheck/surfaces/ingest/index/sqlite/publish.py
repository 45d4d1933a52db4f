"""The transactions that change what is found: a document comes, changes or goes."""

from __future__ import annotations

import apsw

from coatcheck.surfaces.ingest.index.base import (
    CollectionRow,
    NewDocument,
    check_embedder,
)
from coatcheck.surfaces.ingest.index.sqlite.connection import SQL
from coatcheck.surfaces.ingest.index.staged import check_staged, storable, written_metadata

PASSAGES_EACH = 1 << 32  # the numbers of a collection's passages


def publish(
    connection: apsw.Connection, new: NewDocument, version: str, passages: int, now: int
) -> bool:
    """Make what is staged of a version the document."""
    of_version = {"tenant": new.tenant, "document": new.id, "version": version}
    before = connection.execute(SQL.version, {"tenant": new.tenant, "id": new.id}).fetchone()
    if before is not None and before[1] >= version:
        connection.execute(SQL.discard, of_version)
        return bool(before[1] == version)
    collection, following = _collection(connection, new, now)
    staged = connection.execute(
        SQL.staged_whole, {**of_version, "dimensions": new.dimensions}
    ).fetchone()
    assert staged is not None
    check_staged(staged, passages, new.dimensions)
    if before is not None:
        _forget_passages(connection, before[0])
    key = connection.execute(
        SQL.put_document,
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
            "metadata": written_metadata(new.metadata),
            "version": version,
            "passages": passages,
            "now": now,
        },
    ).get
    values = {**of_version, "key": key, "first": collection * PASSAGES_EACH + following}
    connection.execute(SQL.put_passages, {**values, "collection": collection})
    connection.execute(SQL.put_words, {"key": key})
    connection.execute(SQL.put_vectors, values)
    connection.execute(SQL.put_signs, values)
    connection.execute(SQL.count_passages, {"collection": collection, "passages": passages})
    connection.execute(SQL.discard, of_version)
    return True


def delete(connection: apsw.Connection, tenant: str, document: str) -> bool:
    """Remove a document, and its collection if it was the last."""
    row = connection.execute(SQL.version, {"tenant": tenant, "id": document}).fetchone()
    if row is None:
        return False
    _forget_passages(connection, row[0])
    collection = connection.execute(SQL.forget_document, {"key": row[0]}).get
    connection.execute(SQL.forget_empty_collection, {"collection": collection})
    return True


def _collection(connection: apsw.Connection, new: NewDocument, now: int) -> tuple[int, int]:
    """Return the number of the document's collection, and that of its next passage."""
    row = connection.execute(
        SQL.collection_for_writing, {"tenant": new.tenant, "name": new.collection}
    ).fetchone()
    if row is not None:
        key, embedder, dimensions, following = row
        known = CollectionRow(new.collection, embedder, dimensions, 0, 0, 0)
        check_embedder(known, new.embedder, new.dimensions)
        return key, following
    values = {"tenant": new.tenant, "name": new.collection, "embedder": new.embedder}
    added = {**values, "dimensions": new.dimensions, "now": now}
    return connection.execute(SQL.add_collection, added).get, 0


def _forget_passages(connection: apsw.Connection, key: int) -> None:
    # The words first: they are taken out of their index by what the passages say they are.
    connection.execute(SQL.forget_words, {"key": key})
    connection.execute(SQL.forget_vectors, {"key": key})
    connection.execute(SQL.forget_signs, {"key": key})
    connection.execute(SQL.forget_passages, {"key": key})
