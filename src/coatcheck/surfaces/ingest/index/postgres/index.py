"""PostgresIndex: the Index protocol in the schema of the job store, for any number of machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from coatcheck.store.postgres.database.pool import Database
from coatcheck.surfaces.ingest.document import Chunk
from coatcheck.surfaces.ingest.index.base import (
    CollectionRow,
    DocumentRow,
    NewDocument,
    PassageKey,
    Query,
    SearchHit,
    Vector,
    Vectors,
    document_id,
)
from coatcheck.surfaces.ingest.index.passages import build_passages, dump_metadata
from coatcheck.surfaces.ingest.index.postgres import publish
from coatcheck.surfaces.ingest.index.postgres.schema import IndexStatements, prepare
from coatcheck.surfaces.ingest.index.postgres.search import PostgresSearch
from coatcheck.surfaces.ingest.index.ranking import EXACT_UP_TO, SHORTLIST, check_query
from coatcheck.surfaces.ingest.index.rows import read_document


class PostgresIndex:
    """Documents and passages in a PostgreSQL schema."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "coatcheck",
        connections: int = 4,
        exact_up_to: int = EXACT_UP_TO,
        shortlist: int = SHORTLIST,
    ) -> None:
        self._dsn = dsn
        self._schema = schema
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._database = Database(dsn, connections=connections)
        self._sql: IndexStatements

    async def __aenter__(self) -> Self:
        """Create the tables if they are missing, and connect."""
        self._sql = await prepare(self._dsn, self._schema)
        await self._database.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for running queries and close the connections."""
        await self._database.close()

    async def collections(self, tenant: str) -> list[CollectionRow]:
        """List a tenant's collections by name."""
        return [
            CollectionRow(*tuple(row)[1:])
            for row in await self._rows(self._sql.collections, tenant, None)
        ]

    async def collection(self, tenant: str, name: str) -> CollectionRow | None:
        """Return a collection; None if it does not exist."""
        rows = await self._rows(self._sql.collections, tenant, name)
        return CollectionRow(*tuple(rows[0])[1:]) if rows else None

    async def documents(
        self, tenant: str, collection: str, after: str | None = None, limit: int = 50
    ) -> list[DocumentRow]:
        """List a collection's documents by name, beginning after a name."""
        rows = await self._rows(self._sql.documents, tenant, collection, after or "", limit)
        return [read_document(tuple(row)) for row in rows]

    async def document(self, tenant: str, collection: str, name: str) -> DocumentRow | None:
        """Return a document by name; None if it does not exist."""
        return await self.document_by_id(tenant, document_id(tenant, collection, name))

    async def document_by_id(self, tenant: str, id: str) -> DocumentRow | None:  # noqa: A002
        """Return a document by id; None if it does not exist."""
        rows = await self._rows(self._sql.document, tenant, id)
        return read_document(tuple(rows[0])) if rows else None

    async def stage(
        self,
        tenant: str,
        document: str,
        version: str,
        chunks: Sequence[Chunk],
        vectors: Vectors,
        now: int,
    ) -> None:
        """Write passages of a version, all or none, where no search finds them."""
        rows = [
            (
                tenant,
                document,
                version,
                each.ordinal,
                each.text,
                each.start,
                each.end,
                each.page,
                each.headings,
                # A word and its position, in the syntax of a tsvector.
                " ".join(f"{word}:{position}" for position, word in enumerate(each.words, 1)),
                None if each.vector is None else each.vector.tolist(),
                now,
            )
            for each in build_passages(chunks, vectors)
        ]
        await self._database.run(lambda connection: connection.executemany(self._sql.stage, rows))

    async def staged(self, tenant: str, document: str, version: str) -> set[int]:
        """Return the ordinals of a version's staged passages."""
        rows = await self._rows(self._sql.staged, tenant, document, version)
        return {row["ordinal"] for row in rows}

    async def vectors(self, tenant: str, document: str) -> dict[PassageKey, Vector]:
        """Return the vectors of a document's passages, by text and headings."""
        rows = await self._rows(self._sql.document_vectors, tenant, document)
        return {
            (text, headings): np.array(vector, dtype=np.float32) for text, headings, vector in rows
        }

    async def publish(self, document: NewDocument, version: str, passages: int, now: int) -> bool:
        """Make a version the document; return False if a later one exists."""
        return await self._database.run(
            lambda connection: publish.publish(
                connection, self._sql, document, version, passages, now
            )
        )

    async def discard(self, tenant: str, document: str, version: str) -> None:
        """Delete a version's staged passages."""
        await self._rows(self._sql.discard, tenant, document, version)

    async def update_metadata(
        self, tenant: str, document: str, metadata: Mapping[str, str]
    ) -> bool:
        """Replace a document's metadata; return False if the document does not exist."""
        written = dump_metadata(metadata)
        return bool(await self._rows(self._sql.update_metadata, tenant, document, written))

    async def delete(self, tenant: str, document: str) -> bool:
        """Delete a document with its passages; return False if it does not exist."""
        return await self._database.run(
            lambda connection: publish.delete(connection, self._sql, tenant, document)
        )

    async def sweep(self, before: int) -> int:
        """Delete passages staged before a time, of all tenants; return their number."""
        status = await self._database.run(
            lambda connection: connection.execute(self._sql.sweep, before)
        )
        return int(status.rpartition(" ")[2])

    async def search(self, tenant: str, collection: str, query: Query) -> list[SearchHit]:
        """Return the best passages for a query, best first."""
        check_query(query)

        async def search(connection: Any) -> list[SearchHit]:
            # One snapshot from the first statement to the last.
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                one = PostgresSearch(
                    connection, self._sql, query, self._exact_up_to, self._shortlist
                )
                return await one.run(tenant, collection)

        return await self._database.run(search, transaction=False)

    async def _rows(self, sql: str, *values: Any) -> list[Any]:
        found: list[Any] = await self._database.run(
            lambda connection: connection.fetch(sql, *values), transaction=False
        )
        return found
