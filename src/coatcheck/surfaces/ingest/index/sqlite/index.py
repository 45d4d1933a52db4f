"""SQLiteIndex: the Index protocol on a file of its own, for the processes of one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw
import numpy as np

from coatcheck.errors import StoreUnavailable
from coatcheck.private_files import make_private_directory
from coatcheck.store.sqlite.database.connection import translate
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
from coatcheck.surfaces.ingest.index.ranking import EXACT_UP_TO, SHORTLIST, check_query, pack_signs
from coatcheck.surfaces.ingest.index.rows import read_document
from coatcheck.surfaces.ingest.index.sqlite import publish
from coatcheck.surfaces.ingest.index.sqlite.connection import SQL, connect, migrate
from coatcheck.surfaces.ingest.index.sqlite.search import SQLiteSearch
from coatcheck.surfaces.ingest.index.sqlite.threads import Threads

READERS = 2


class SQLiteIndex:
    """Documents and passages in a SQLite file."""

    def __init__(
        self, file: Path, *, exact_up_to: int = EXACT_UP_TO, shortlist: int = SHORTLIST
    ) -> None:
        self._file = file
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._readers: Threads
        self._writer: Threads

    async def __aenter__(self) -> Self:
        """Create the file and its tables if they are missing."""
        try:
            make_private_directory(self._file.parent)
            with closing(connect(self._file)) as connection:
                migrate(connection)
        except apsw.Error as error:
            raise translate(error) from error
        except OSError as error:
            raise StoreUnavailable(f"the search index cannot be created: {error}") from error
        self._readers = Threads(self._file, READERS, read_only=True)
        self._writer = Threads(self._file, 1, read_only=False)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for running transactions and close the connections."""
        self._readers.close()
        self._writer.close()

    async def collections(self, tenant: str) -> list[CollectionRow]:
        """List a tenant's collections by name."""
        rows = await self._rows(SQL.collections, tenant=tenant, name=None)
        return [CollectionRow(*row[1:]) for row in rows]

    async def collection(self, tenant: str, name: str) -> CollectionRow | None:
        """Return a collection; None if it does not exist."""
        rows = await self._rows(SQL.collections, tenant=tenant, name=name)
        return CollectionRow(*rows[0][1:]) if rows else None

    async def documents(
        self, tenant: str, collection: str, after: str | None = None, limit: int = 50
    ) -> list[DocumentRow]:
        """List a collection's documents by name, beginning after a name."""
        values = {"tenant": tenant, "collection": collection, "after": after or "", "limit": limit}
        return [read_document(row) for row in await self._rows(SQL.documents, **values)]

    async def document(self, tenant: str, collection: str, name: str) -> DocumentRow | None:
        """Return a document by name; None if it does not exist."""
        return await self.document_by_id(tenant, document_id(tenant, collection, name))

    async def document_by_id(self, tenant: str, id: str) -> DocumentRow | None:  # noqa: A002
        """Return a document by id; None if it does not exist."""
        rows = await self._rows(SQL.document, tenant=tenant, id=id)
        return read_document(rows[0]) if rows else None

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
            {
                "tenant": tenant,
                "document": document,
                "version": version,
                "ordinal": each.ordinal,
                "text": each.text,
                "starts": each.start,
                "ends": each.end,
                "page": each.page,
                "headings": each.headings,
                "words": " ".join(each.words),
                "vector": None if each.vector is None else each.vector.tobytes(),
                "signs": None if each.vector is None else pack_signs(each.vector).tobytes(),
                "now": now,
            }
            for each in build_passages(chunks, vectors)
        ]
        await self._writer.run(lambda connection: connection.executemany(SQL.stage, rows))

    async def staged(self, tenant: str, document: str, version: str) -> set[int]:
        """Return the ordinals of a version's staged passages."""
        values = {"tenant": tenant, "document": document, "version": version}
        return {ordinal for (ordinal,) in await self._rows(SQL.staged, **values)}

    async def vectors(self, tenant: str, document: str) -> dict[PassageKey, Vector]:
        """Return the vectors of a document's passages, by text and headings."""
        rows = await self._rows(SQL.document_vectors, tenant=tenant, id=document)
        return {
            (text, headings): np.frombuffer(vector, dtype=np.float32)
            for text, headings, vector in rows
        }

    async def publish(self, document: NewDocument, version: str, passages: int, now: int) -> bool:
        """Make a version the document; return False if a later one exists."""
        is_latest = await self._writer.run(
            lambda connection: publish.publish(connection, document, version, passages, now)
        )
        await self._writer.erase()
        return is_latest

    async def discard(self, tenant: str, document: str, version: str) -> None:
        """Delete a version's staged passages."""
        values = {"tenant": tenant, "document": document, "version": version}
        await self._writer.run(lambda connection: connection.execute(SQL.discard, values))

    async def update_metadata(
        self, tenant: str, document: str, metadata: Mapping[str, str]
    ) -> bool:
        """Replace a document's metadata; return False if the document does not exist."""
        values = {"tenant": tenant, "id": document, "metadata": dump_metadata(metadata)}
        changed = await self._writer.run(
            lambda connection: connection.execute(SQL.update_metadata, values).fetchall()
        )
        return bool(changed)

    async def delete(self, tenant: str, document: str) -> bool:
        """Delete a document with its passages; return False if it does not exist."""
        existed = await self._writer.run(
            lambda connection: publish.delete(connection, tenant, document)
        )
        await self._writer.erase()
        return existed

    async def sweep(self, before: int) -> int:
        """Delete passages staged before a time, of all tenants; return their number."""

        def remove(connection: apsw.Connection) -> int:
            connection.execute(SQL.sweep, {"before": before})
            return connection.changes()

        return await self._writer.run(remove)

    async def search(self, tenant: str, collection: str, query: Query) -> list[SearchHit]:
        """Return the best passages for a query, best first."""
        check_query(query)
        return await self._readers.run(
            lambda connection: SQLiteSearch(
                connection, query, self._exact_up_to, self._shortlist
            ).run(tenant, collection)
        )

    async def _rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return await self._readers.run(
            lambda connection: connection.execute(sql, values).fetchall()
        )
