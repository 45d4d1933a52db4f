"""The index: documents, their passages and vectors, and the search over them.

A version of a document comes into the index in two steps. `stage` writes some of its passages with
their vectors where nobody finds them; staged twice, a passage is there once. `publish` makes all
that was staged of the version the document, in one transaction: whoever searches sees the old
version whole or the new one whole. What can go wrong in between:

- The process dies between the two. What is staged stays, for the job when it comes back.
- The job never comes back. `sweep` removes what was staged longer ago than it is told. A job that
  comes back after that asks `staged` what is left and stages the rest again; `publish` counts, and
  raises StagedGone before it would publish half a document.
- Two jobs bring versions of the same document at once. Versions are ordered (a job's id is a good
  version), and the later wins whichever is published first: `publish` of an earlier one than the
  document has changes nothing and says so.
- Publishing is answered and the answer lost. Published again, a version stays as it is.

A collection is there as long as it has a document. It takes the embedder of its first one, and
none from another: their vectors could not be compared. Everything belongs to one tenant, and what
is another tenant's does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from coatcheck.errors import Conflict
from coatcheck.ids import derived_ulid
from coatcheck.surfaces.ingest.stages import Chunk

Vector = NDArray[np.float32]  # of one passage, or of one query
Vectors = NDArray[np.float32]  # a row for each passage
# A text and its headings (a JSON array), as they are stored.
PassageKey = tuple[str, str]

MOST_RESULTS = 100
LONGEST_QUERY = 10_000  # characters that are looked at; what follows is not


class EmbedderMismatch(Conflict):
    """The collection's vectors are another embedder's."""

    code = "embedder-mismatch"


class StagedGone(Conflict):
    """Passages of the version that is to be published are not staged (any more)."""

    code = "staged-gone"


class Mode(StrEnum):
    """What a search compares: words, vectors, or both."""

    TEXT = "text"
    VECTOR = "vector"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class NewDocument:
    """What is published, beside its passages."""

    tenant: str
    id: str  # document_id(tenant, collection, name)
    collection: str
    name: str
    title: str
    format: str
    language: str | None
    sha256: str
    size: int
    embedder: str
    dimensions: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as it is in the index."""

    id: str
    collection: str
    name: str
    title: str
    format: str
    language: str | None
    sha256: str
    size: int
    embedder: str
    metadata: Mapping[str, str]
    version: str
    passages: int
    created_at: int  # when its first version was published
    updated_at: int  # when this one was


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection, and how much is in it."""

    name: str
    embedder: str
    dimensions: int
    documents: int
    passages: int
    created_at: int


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for."""

    text: str
    k: int = 10
    mode: Mode = Mode.HYBRID
    # Of the text, and whose it is; needed unless only words are compared.
    vector: Vector | None = None
    embedder: str | None = None
    # Only documents whose metadata have all of these.
    filter: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A passage that was found, best first; scores compare within one answer only."""

    score: float
    text: str
    ordinal: int
    start: int
    end: int
    page: int | None
    headings: tuple[str, ...]
    document_id: str
    name: str
    title: str
    metadata: Mapping[str, str]


def document_id(tenant: str, collection: str, name: str) -> str:
    """Return the id that a document has by its place and name, whenever it is sent."""
    return derived_ulid(0, tenant, collection, name)


def check_embedder(collection: CollectionRow | None, embedder: str, dimensions: int) -> None:
    """Raise EmbedderMismatch unless the collection is new or has this embedder's vectors."""
    if collection is not None and (collection.embedder, collection.dimensions) != (
        embedder,
        dimensions,
    ):
        raise EmbedderMismatch(
            f"the collection {collection.name!r} has vectors by {collection.embedder} "
            f"({collection.dimensions} dimensions), and these are by {embedder} ({dimensions}): "
            "use another collection, or delete its documents and ingest them again"
        )


class Index(Protocol):
    """The seam; SQLite and PostgreSQL fill it, and one suite holds both to the same behaviour."""

    async def __aenter__(self) -> Self:
        """Open it, and make its tables where they are missing."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        ...

    async def collections(self, tenant: str) -> list[CollectionRow]:
        """List a tenant's collections by name."""
        ...

    async def collection(self, tenant: str, name: str) -> CollectionRow | None:
        """Read a collection; None where there is none."""
        ...

    async def documents(
        self, tenant: str, collection: str, after: str | None = None, limit: int = 50
    ) -> list[DocumentRow]:
        """List a collection's documents by name, from the one after a name on."""
        ...

    async def document(self, tenant: str, collection: str, name: str) -> DocumentRow | None:
        """Read a document by its name."""
        ...

    async def document_by_id(self, tenant: str, id: str) -> DocumentRow | None:  # noqa: A002
        """Read a document by its id."""
        ...

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
        ...

    async def staged(self, tenant: str, document: str, version: str) -> set[int]:
        """Return the ordinals of the passages that are staged of a version."""
        ...

    async def vectors(self, tenant: str, document: str) -> dict[PassageKey, Vector]:
        """Return the vectors of a document's passages, by what was embedded of them."""
        ...

    async def publish(self, document: NewDocument, version: str, passages: int, now: int) -> bool:
        """Make a version, of so many staged passages, the document; False where a later one is it.

        Raises StagedGone where they are not all staged, EmbedderMismatch where the collection has
        another embedder's vectors; nothing is changed then.
        """
        ...

    async def discard(self, tenant: str, document: str, version: str) -> None:
        """Remove what is staged of a version."""
        ...

    async def describe(self, tenant: str, document: str, metadata: Mapping[str, str]) -> bool:
        """Give a document other metadata and leave the rest; False where there is none."""
        ...

    async def delete(self, tenant: str, document: str) -> bool:
        """Remove a document with its passages; False where there is none."""
        ...

    async def sweep(self, before: int) -> int:
        """Remove what was staged before a time, of all tenants; return how many passages."""
        ...

    async def search(self, tenant: str, collection: str, query: Query) -> list[SearchHit]:
        """Find passages, best first.

        Raises NotFound where there is no such collection, InvalidInput where `k` is not between 1
        and 100 or a vector is missing, EmbedderMismatch where it is another embedder's.
        """
        ...
