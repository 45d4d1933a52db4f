"""The surface's endpoints."""

from __future__ import annotations

from coatcheck.documents.fields import Name
from coatcheck.documents.schema import schema_of
from coatcheck.http.endpoint import (
    IDEMPOTENCY_KEY,
    TRACEPARENT,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Parameter,
    Schema,
    as_json,
    ref,
)
from coatcheck.http.request.query import MAX_PAGE
from coatcheck.surfaces.ingest.constants import KIND, MAX_FILES, MAX_NAME_LENGTH
from coatcheck.surfaces.ingest.documents import (
    CollectionPage,
    DocumentPage,
    IngestedDocument,
    SearchResults,
)
from coatcheck.surfaces.ingest.handlers import IngestHandlers
from coatcheck.surfaces.ingest.index.base import MAX_QUERY_LENGTH, MAX_RESULTS, Mode
from coatcheck.surfaces.ingest.submit import IngestRequest, ingest

TAG = "documents"
_FORM: Schema = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "minItems": 1,
            "maxItems": MAX_FILES,
        },
        "collection": schema_of(Name),
        "metadata": {"type": "string", "description": "A JSON object with string values."},
        "name": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
    },
    "required": ["files"],
    "additionalProperties": False,
}
_PREFER = Parameter(
    "Prefer",
    "`wait=N` waits up to N seconds for the result, `respond-async` responds at once (RFC 7240).",
    {"type": "string"},
    location="header",
)
_A_JOB = as_json(ref("Job"))
_CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}


def endpoints_for(handlers: IngestHandlers) -> list[Endpoint]:
    """List the endpoints of a server."""
    return [_ingest(), *_collections(handlers), *_documents(handlers)]


def _ingest() -> Endpoint:
    return Endpoint(
        "POST",
        "/v1/ingest",
        ingest,
        "ingest",
        "Ingest documents into a collection",
        TAG,
        {
            200: EndpointResponse(
                "The job has finished: within the wait, or before a replayed request.",
                _A_JOB,
                ("Location", "Preference-Applied", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "The documents are durable and will be ingested.",
                _A_JOB,
                ("Location", "Retry-After", "Preference-Applied", "Idempotency-Replayed"),
                links_to_job=True,
            ),
        },
        error_statuses=(408, 409, 410, 413, 415, 422, 429),
        parameters=(IDEMPOTENCY_KEY, _PREFER, TRACEPARENT),
        body=EndpointBody(
            "Files as a form, or a URL or a text as JSON.",
            {"multipart/form-data": _FORM, "application/json": IngestRequest.model_json_schema()},
        ),
        description=(
            "One document is one job. Several documents are a job each, and one that waits for all "
            "of them and returns their outcomes in order. A document replaces one of the same name "
            "once it is complete. Ingesting identical bytes again does nothing."
        ),
        kind=KIND,
    )


def _collections(handlers: IngestHandlers) -> list[Endpoint]:
    return [
        Endpoint(
            "GET",
            "/v1/collections",
            handlers.collections,
            "listCollections",
            "List collections",
            TAG,
            {200: EndpointResponse("Collections by name.", as_json(schema_of(CollectionPage)))},
            kind=KIND,
        ),
        Endpoint(
            "GET",
            "/v1/collections/{collection}/documents",
            handlers.documents,
            "listDocuments",
            "List the documents of a collection",
            TAG,
            {
                200: EndpointResponse(
                    "A page of documents, by name.",
                    as_json(schema_of(DocumentPage)),
                )
            },
            error_statuses=(404,),
            parameters=(
                Parameter(
                    "limit",
                    "Documents per page.",
                    {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                ),
                Parameter("cursor", "`next_cursor` of the previous page.", _CURSOR),
            ),
            kind=KIND,
        ),
        Endpoint(
            "GET",
            "/v1/collections/{collection}/search",
            handlers.search,
            "searchCollection",
            "Search a collection",
            TAG,
            {200: EndpointResponse("Passages, best first.", as_json(schema_of(SearchResults)))},
            error_statuses=(404, 409),
            parameters=(
                Parameter(
                    "q",
                    "The text to search for.",
                    {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_LENGTH},
                    required=True,
                ),
                Parameter(
                    "k",
                    "Number of passages (default 10).",
                    {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
                ),
                Parameter(
                    "filter",
                    "Only documents with this metadata, as key:value. If given several times, all "
                    "must match.",
                    {
                        "type": "array",
                        "items": {"type": "string", "pattern": r"^[^:\u0000]+:[^\u0000]*$"},
                    },
                    repeated=True,
                ),
                Parameter(
                    "mode",
                    "Compare words, vectors, or both (hybrid).",
                    {"type": "string", "enum": list(Mode)},
                ),
            ),
            kind=KIND,
        ),
    ]


def _documents(handlers: IngestHandlers) -> list[Endpoint]:
    return [
        Endpoint(
            "GET",
            "/v1/documents/{document_id}",
            handlers.document,
            "getDocument",
            "Get a document",
            TAG,
            {
                200: EndpointResponse(
                    "The document's metadata.", as_json(schema_of(IngestedDocument))
                )
            },
            error_statuses=(404,),
            kind=KIND,
        ),
        Endpoint(
            "DELETE",
            "/v1/documents/{document_id}",
            handlers.delete,
            "deleteDocument",
            "Delete a document from its collection",
            TAG,
            {204: EndpointResponse("The document is deleted.", {})},
            error_statuses=(404,),
            kind=KIND,
        ),
    ]
