"""The Index protocol: documents, their passages and vectors, and the search over them.

A version of a document is indexed in two steps. `stage` writes some of its passages with their
vectors, where no search finds them; it is idempotent. `publish` makes all staged passages of the
version the document, in one transaction: a search sees either the old version or the new one as a
whole. Failure modes:

- The process dies between the two. The staged passages remain for the job's next attempt.
- The job never resumes. `sweep` deletes passages that were staged before a given time. A job that
  resumes later reads `staged` and stages the rest again. `publish` counts the passages and raises
  StagedGone rather than publish an incomplete document.
- Two jobs index versions of the same document at once. Versions are ordered (a job's id is a good
  version), and the later one wins whichever is published first: publishing an earlier version than
  the current one changes nothing and returns False.
- `publish` commits but its response is lost. Publishing the same version again changes nothing.

A collection exists while it has a document. It takes the embedder of its first document and rejects
any other, because vectors of different embedders cannot be compared. Everything belongs to one
tenant; the data of other tenants does not exist for a caller.
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
from coatcheck.surfaces.ingest.document import Chunk

Vector = NDArray[np.float32]  # of one passage or one query
Vectors = NDArray[np.float32]  # one row per passage
# A text and its headings (a JSON array), as stored.
PassageKey = tuple[str, str]

MAX_RESULTS = 100
MAX_QUERY_LENGTH = 10_000  # characters; the rest is ignored


class EmbedderMismatch(Conflict):
    """The collection has vectors of another embedder."""

    code = "embedder-mismatch"


class StagedGone(Conflict):
    """Not all passages of the version to publish are staged."""

    code = "staged-gone"


class Mode(StrEnum):
    """The kind of search: by words, by vectors, or both."""

    TEXT = "text"
    VECTOR = "vector"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to publish, without its passages."""

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
    """A document in the index."""

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
    created_at: int  # of the first version
    updated_at: int  # of this version


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection and its size."""

    name: str
    embedder: str
    dimensions: int
    documents: int
    passages: int
    created_at: int


@dataclass(frozen=True, slots=True)
class Query:
    """A search request."""

    text: str
    k: int = 10
    mode: Mode = Mode.HYBRID
    # The vector of the text and its embedder; required unless the mode is TEXT.
    vector: Vector | None = None
    embedder: str | None = None
    # Only documents whose metadata has all of these.
    filter: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A passage that a search found; scores are comparable only within one result."""

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
    """Return the id of a document, derived from its tenant, collection and name."""
    return derived_ulid(0, tenant, collection, name)


def check_embedder(collection: CollectionRow | None, embedder: str, dimensions: int) -> None:
    """Raise EmbedderMismatch unless the collection is new or has this embedder's vectors."""
    if collection is not None and (collection.embedder, collection.dimensions) != (
        embedder,
        dimensions,
    ):
        raise EmbedderMismatch(
            f"the collection {collection.name!r} has vectors by {collection.embedder} "
            f"({collection.dimensions} dimensions), not by {embedder} ({dimensions}): "
            "use another collection, or delete its documents and ingest them again"
        )


class Index(Protocol):
    """The interface of an index. One suite of tests covers both implementations."""

    async def __aenter__(self) -> Self:
        """Open the index and create missing tables."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the index."""
        ...

    async def collections(self, tenant: str) -> list[CollectionRow]:
        """List a tenant's collections by name."""
        ...

    async def collection(self, tenant: str, name: str) -> CollectionRow | None:
        """Return a collection; None if it does not exist."""
        ...

    async def documents(
        self, tenant: str, collection: str, after: str | None = None, limit: int = 50
    ) -> list[DocumentRow]:
        """List a collection's documents by name, beginning after a name."""
        ...

    async def document(self, tenant: str, collection: str, name: str) -> DocumentRow | None:
        """Return a document by name; None if it does not exist."""
        ...

    async def document_by_id(self, tenant: str, id: str) -> DocumentRow | None:  # noqa: A002
        """Return a document by id; None if it does not exist."""
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
        """Write passages of a version, all or none, where no search finds them."""
        ...

    async def staged(self, tenant: str, document: str, version: str) -> set[int]:
        """Return the ordinals of a version's staged passages."""
        ...

    async def vectors(self, tenant: str, document: str) -> dict[PassageKey, Vector]:
        """Return the vectors of a document's passages, by text and headings."""
        ...

    async def publish(self, document: NewDocument, version: str, passages: int, now: int) -> bool:
        """Make a version with this many staged passages the document; False if a later one exists.

        Raises StagedGone if not all are staged, EmbedderMismatch if the collection has vectors of
        another embedder. Nothing changes in either case.
        """
        ...

    async def discard(self, tenant: str, document: str, version: str) -> None:
        """Delete a version's staged passages."""
        ...

    async def update_metadata(
        self, tenant: str, document: str, metadata: Mapping[str, str]
    ) -> bool:
        """Replace a document's metadata; return False if the document does not exist."""
        ...

    async def delete(self, tenant: str, document: str) -> bool:
        """Delete a document with its passages; return False if it does not exist."""
        ...

    async def sweep(self, before: int) -> int:
        """Delete passages staged before a time, of all tenants; return their number."""
        ...

    async def search(self, tenant: str, collection: str, query: Query) -> list[SearchHit]:
        """Return the best passages for a query, best first.

        Raises NotFound if the collection does not exist, InvalidInput if `k` is not between 1 and
        100 or a vector is missing, EmbedderMismatch if the vector is of another embedder.
        """
        ...
