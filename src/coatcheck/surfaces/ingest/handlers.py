"""Handlers for collections, documents and search."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.errors import NotFound, StoreUnavailable
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.endpoint import JSON
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.query import MAX_PAGE, PAGE, read_cursor, read_number, write_cursor
from coatcheck.surfaces.ingest.document import is_document_name
from coatcheck.surfaces.ingest.embedding.base import EmbedderRejected
from coatcheck.surfaces.ingest.index.base import MAX_QUERY_LENGTH, MAX_RESULTS, Mode, Query
from coatcheck.surfaces.ingest.resources import IngestResources
from coatcheck.surfaces.ingest.views import collection_view, document_view, hits_view

log = logging.getLogger(__name__)

RESULTS = 10
_MODES = ", ".join(Mode)


class IngestHandlers:
    """The handlers of one server."""

    def __init__(self, resources: IngestResources) -> None:
        self._resources = resources

    async def collections(self, request: Request) -> Response:
        """List the caller's collections."""
        index = await self._resources.index()
        rows = await index.collections(tenant_of(request))
        return _json({"collections": [collection_view(row) for row in rows]})

    async def documents(self, request: Request) -> Response:
        """List the documents of a collection by name."""
        query, tenant = request.query_params, tenant_of(request)
        limit = read_number(query, "limit", PAGE, 1, MAX_PAGE)
        cursor = query.get("cursor")
        after = None if cursor is None else read_cursor(cursor, is_document_name)
        name = request.path_params["collection"]
        index = await self._resources.index()
        if await index.collection(tenant, name) is None:
            raise NotFound("there is no such collection")
        rows = await index.documents(tenant, name, after, limit + 1)
        more = write_cursor(rows[limit - 1].name) if len(rows) > limit else None
        shown = [document_view(row) for row in rows[:limit]]
        return _json({"documents": shown, "next_cursor": more})

    async def document(self, request: Request) -> Response:
        """Return a document's metadata."""
        index = await self._resources.index()
        row = await index.document_by_id(tenant_of(request), request.path_params["document_id"])
        if row is None:
            raise NotFound("there is no such document")
        return _json(document_view(row))

    async def delete(self, request: Request) -> Response:
        """Delete a document with its passages."""
        index = await self._resources.index()
        document = request.path_params["document_id"]
        if not await index.delete(tenant_of(request), document):
            raise NotFound("there is no such document")
        log.info("document deleted", extra={"document": document})
        return Response(status_code=204)

    async def search(self, request: Request) -> Response:
        """Search a collection; return passages, best first."""
        query = _read_query(request)
        tenant, name = tenant_of(request), request.path_params["collection"]
        index = await self._resources.index()
        if await index.collection(tenant, name) is None:
            raise NotFound("there is no such collection")
        if query.mode is not Mode.TEXT:
            query = await self._with_vector(query)
        return _json({"results": hits_view(await index.search(tenant, name, query))})

    async def _with_vector(self, query: Query) -> Query:
        embedder = self._resources.embedder()
        try:
            vector = await embedder.embed_query(query.text)
        except EmbedderRejected as error:
            raise StoreUnavailable(str(error)) from None
        return Query(
            query.text,
            query.k,
            query.mode,
            vector,
            embedder.name,
            query.filter,
        )


def _read_query(request: Request) -> Query:
    query = request.query_params
    text = query.get("q", "")
    if not text.strip() or len(text) > MAX_QUERY_LENGTH or "\0" in text:
        raise HTTPException(400, f"q must be a text of up to {MAX_QUERY_LENGTH:,} characters")
    mode = query.get("mode", Mode.HYBRID)
    if mode not in tuple(Mode):
        raise HTTPException(400, f"mode must be one of {_MODES}")
    wanted = {}
    for entry in query.getlist("filter"):
        key, colon, value = entry.partition(":")
        if not key or not colon:
            raise HTTPException(400, "a filter must be key:value, matching a document's metadata")
        wanted[key] = value
    k = read_number(query, "k", RESULTS, 1, MAX_RESULTS)
    return Query(text, k, Mode(mode), filter=wanted)


def _json(value: object) -> Response:
    return Response(dumps(value), media_type=JSON)
