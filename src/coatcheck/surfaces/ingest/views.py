"""JSON views of collections, documents and search results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coatcheck.clock import to_rfc3339
from coatcheck.surfaces.ingest.index.base import CollectionRow, DocumentRow, SearchHit


def collection_view(row: CollectionRow) -> dict[str, Any]:
    """Return a collection as JSON."""
    return {
        "name": row.name,
        "documents": row.documents,
        "passages": row.passages,
        "embedder": row.embedder,
        "dimensions": row.dimensions,
        "created_at": to_rfc3339(row.created_at),
        "links": {
            "documents": f"/v1/collections/{row.name}/documents",
            "search": f"/v1/collections/{row.name}/search",
        },
    }


def document_view(row: DocumentRow) -> dict[str, Any]:
    """Return a document as JSON, without its text."""
    return {
        "id": row.id,
        "collection": row.collection,
        "name": row.name,
        "title": row.title,
        "format": row.format,
        "language": row.language,
        "sha256": row.sha256,
        "size": row.size,
        "passages": row.passages,
        "metadata": dict(row.metadata),
        "created_at": to_rfc3339(row.created_at),
        "updated_at": to_rfc3339(row.updated_at),
        "links": {"self": f"/v1/documents/{row.id}"},
    }


def hits_view(found: Iterable[SearchHit]) -> list[dict[str, Any]]:
    """Return search results as JSON, best first."""
    return [
        {
            "text": each.text,
            "score": each.score,
            "page": each.page,
            "start": each.start,
            "end": each.end,
            "headings": list(each.headings),
            "document": {
                "id": each.document_id,
                "name": each.name,
                "title": each.title,
                "metadata": dict(each.metadata),
            },
        }
        for each in found
    ]
