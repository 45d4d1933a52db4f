"""The JSON documents of collections, documents and search results."""

from __future__ import annotations

from coatcheck.documents.fields import Count, Links, Name, Timestamp
from coatcheck.documents.schema import Document


class CollectionDocument(Document):
    """A collection of documents."""

    name: Name
    documents: Count
    passages: Count
    embedder: str
    dimensions: Count
    created_at: Timestamp
    links: Links


class CollectionPage(Document):
    """Every collection of a tenant."""

    collections: list[CollectionDocument]


class IngestedDocument(Document):
    """A document of a collection."""

    id: str
    collection: Name
    name: str
    title: str
    format: str
    language: str | None
    sha256: str
    size: Count
    passages: Count
    metadata: dict[str, str]
    created_at: Timestamp
    updated_at: Timestamp
    links: Links


class DocumentPage(Document):
    """A page of documents."""

    documents: list[IngestedDocument]
    next_cursor: str | None


class FoundDocument(Document):
    """The document of a passage."""

    id: str
    name: str
    title: str
    metadata: dict[str, str]


class FoundPassage(Document):
    """A passage that matches a search."""

    text: str
    score: float
    page: Count | None
    start: Count
    end: Count
    headings: list[str]
    document: FoundDocument


class SearchResults(Document):
    """The passages that match a search, best first."""

    results: list[FoundPassage]
