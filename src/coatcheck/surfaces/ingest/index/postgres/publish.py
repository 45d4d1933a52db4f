"""Transactions that change what a search finds: publish and delete documents."""

from __future__ import annotations

from typing import Any

from coatcheck.surfaces.ingest.index.base import CollectionRow, NewDocument, check_embedder
from coatcheck.surfaces.ingest.index.passages import check_staged, dump_metadata, storable
from coatcheck.surfaces.ingest.index.postgres.schema import IndexStatements


async def publish(
    connection: Any, sql: IndexStatements, new: NewDocument, version: str, passages: int, now: int
) -> bool:
    """Make a version's staged passages the document."""
    collection, embedder, dimensions = await connection.fetchrow(
        sql.lock_collection, new.tenant, new.collection, new.embedder, new.dimensions, now
    )
    before = await connection.fetchrow(sql.version, new.tenant, new.id)
    if before is not None and before["version"] >= version:
        await connection.execute(sql.discard, new.tenant, new.id, version)
        return bool(before["version"] == version)
    known = CollectionRow(new.collection, embedder, dimensions, 0, 0, 0)
    check_embedder(known, new.embedder, new.dimensions)
    staged = await connection.fetchrow(
        sql.staged_totals, new.tenant, new.id, version, new.dimensions
    )
    check_staged(tuple(staged), passages, new.dimensions)
    if before is not None:
        await _delete_passages(connection, sql, before["key"])
    key = await connection.fetchval(
        sql.upsert_document,
        new.tenant,
        new.id,
        collection,
        new.name,
        storable(new.title),
        new.format,
        new.language,
        new.sha256,
        new.size,
        dump_metadata(new.metadata),
        version,
        passages,
        now,
    )
    await connection.execute(sql.insert_passages, new.tenant, new.id, version, key, collection)
    await connection.execute(sql.discard, new.tenant, new.id, version)
    return True


async def delete(connection: Any, sql: IndexStatements, tenant: str, document: str) -> bool:
    """Delete a document, and its collection if it was the last one."""
    collection = await connection.fetchval(sql.lock_collection_of, tenant, document)
    row = await connection.fetchrow(sql.version, tenant, document)
    if row is None:
        return False
    await _delete_passages(connection, sql, row["key"])
    await connection.execute(sql.delete_document, row["key"])
    await connection.execute(sql.delete_empty_collection, collection)
    return True


async def _delete_passages(connection: Any, sql: IndexStatements, key: int) -> None:
    await connection.execute(sql.delete_vectors, key)
    await connection.execute(sql.delete_signs, key)
    # Before the words are deleted: these statements count them.
    await connection.execute(sql.delete_last_words, key)
    await connection.execute(sql.decrement_word_counts, key)
    await connection.execute(sql.delete_words, key)
    await connection.execute(sql.delete_passages, key)
