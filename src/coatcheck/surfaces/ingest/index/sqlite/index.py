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
from coatcheck.surfaces.ingest.index.ranks import EXACT_UP_TO, SHORTLIST, check_query, signs
from coatcheck.surfaces.ingest.index.rows import read_document
from coatcheck.surfaces.ingest.index.sqlite import publish
from coatcheck.surfaces.ingest.index.sqlite.connection import SQL, connect, migrate
from coatcheck.surfaces.ingest.index.sqlite.search import SQLiteSearch
from coatcheck.surfaces.ingest.index.sqlite.threads import Threads
from coatcheck.surfaces.ingest.index.staged import to_stage, written_metadata
from coatcheck.surfaces.ingest.stages import Chunk

READERS = 2


class SQLiteIndex:
    """Documents and passages in a SQLite file."""

    def __init__(
        self, file: Path, *, exact_up_to: int = EXACT_UP_TO, shortlist: int = SHORTLIST
    ) -> None:
        self._file = file
        self._exact_up_to = exact_up_to
        self._shortlist = shortlist
        self._reading: Threads
        self._writing: Threads

    async def __aenter__(self) -> Self:
        """Make the file and its tables where they are missing."""
        try:
            make_private_directory(self._file.parent)
            with closing(connect(self._file)) as connection:
                migrate(connection)
        except apsw.Error as error:
            raise translate(error) from error
        except OSError as error:
            raise StoreUnavailable(f"the search index cannot be made: {error}") from error
        self._reading = Threads(self._file, READERS, read_only=True)
        self._writing = Threads(self._file, 1, read_only=False)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish what is under way and close the connections."""
        self._reading.close()
        self._writing.close()

    async def collections(self, tenant: str) -> list[CollectionRow]:
        """List a tenant's collections by name."""
        rows = await self._rows(SQL.collections, tenant=tenant, name=None)
        return [CollectionRow(*row[1:]) for row in rows]

    async def collection(self, tenant: str, name: str) -> CollectionRow | None:
        """Read a collection; None where there is none."""
        rows = await self._rows(SQL.collections, tenant=tenant, name=name)
        return CollectionRow(*rows[0][1:]) if rows else None

    async def documents(
        self, tenant: str, collection: str, after: str | None = None, limit: int = 50
    ) -> list[DocumentRow]:
        """List a collection's documents by name, from the one after a name on."""
        values = {"tenant": tenant, "collection": collection, "after": after or "", "limit": limit}
        return [read_document(row) for row in await self._rows(SQL.documents, **values)]

    async def document(self, tenant: str, collection: str, name: str) -> DocumentRow | None:
        """Read a document by its name."""
        return await self.document_by_id(tenant, document_id(tenant, collection, name))

    async def document_by_id(self, tenant: str, id: str) -> DocumentRow | None:  # noqa: A002
        """Read a document by its id."""
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
        """Write passages of a version, all or none, where nobody finds them yet."""
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
                "signs": None if each.vector is None else signs(each.vector).tobytes(),
                "now": now,
            }
            for each in to_stage(chunks, vectors)
        ]
        await self._writing.run(lambda connection: connection.executemany(SQL.stage, rows))

    async def staged(self, tenant: str, document: str, version: str) -> set[int]:
        """Return the ordinals of the passages that are staged of a version."""
        values = {"tenant": tenant, "document": document, "version": version}
        return {ordinal for (ordinal,) in await self._rows(SQL.staged, **values)}

    async def vectors(self, tenant: str, document: str) -> dict[PassageKey, Vector]:
        """Return the vectors of a document's passages, by what was embedded of them."""
        rows = await self._rows(SQL.vectors_of, tenant=tenant, id=document)
        return {
            (text, headings): np.frombuffer(vector, dtype=np.float32)
            for text, headings, vector in rows
        }

    async def publish(self, document: NewDocument, version: str, passages: int, now: int) -> bool:
        """Make a version the document; False where a later one is it."""
        stands = await self._writing.run(
            lambda connection: publish.publish(connection, document, version, passages, now)
        )
        await self._writing.erase()
        return stands

    async def discard(self, tenant: str, document: str, version: str) -> None:
        """Remove what is staged of a version."""
        values = {"tenant": tenant, "document": document, "version": version}
        await self._writing.run(lambda connection: connection.execute(SQL.discard, values))

    async def describe(self, tenant: str, document: str, metadata: Mapping[str, str]) -> bool:
        """Give a document other metadata and leave the rest; False where there is none."""
        values = {"tenant": tenant, "id": document, "metadata": written_metadata(metadata)}
        changed = await self._writing.run(
            lambda connection: connection.execute(SQL.describe, values).fetchall()
        )
        return bool(changed)

    async def delete(self, tenant: str, document: str) -> bool:
        """Remove a document with its passages; False where there is none."""
        was_there = await self._writing.run(
            lambda connection: publish.delete(connection, tenant, document)
        )
        await self._writing.erase()
        return was_there

    async def sweep(self, before: int) -> int:
        """Remove what was staged before a time, of all tenants; return how many passages."""

        def remove(connection: apsw.Connection) -> int:
            connection.execute(SQL.sweep, {"before": before})
            return connection.changes()

        return await self._writing.run(remove)

    async def search(self, tenant: str, collection: str, query: Query) -> list[SearchHit]:
        """Find passages, best first."""
        check_query(query)
        return await self._reading.run(
            lambda connection: SQLiteSearch(
                connection, query, self._exact_up_to, self._shortlist
            ).run(tenant, collection)
        )

    async def _rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return await self._reading.run(
            lambda connection: connection.execute(sql, values).fetchall()
        )
