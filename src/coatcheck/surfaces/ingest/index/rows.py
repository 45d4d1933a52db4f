"""Convert rows of the index's queries to values; both stores have the same columns."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.surfaces.ingest.index.base import DocumentRow, SearchHit


def read_document(row: tuple[Any, ...]) -> DocumentRow:
    """Convert a row of the queries `documents` and `document`."""
    values = list(row)
    values[9] = json.loads(values[9])  # the metadata
    return DocumentRow(*values)


def read_hit(score: float, row: tuple[Any, ...]) -> SearchHit:
    """Convert a row of the query `passages`, without its key."""
    text, ordinal, start, end, page, headings, document, name, title, metadata = row
    return SearchHit(
        score=score,
        text=text,
        ordinal=ordinal,
        start=start,
        end=end,
        page=page,
        headings=tuple(json.loads(headings)),
        document_id=document,
        name=name,
        title=title,
        metadata=json.loads(metadata),
    )
