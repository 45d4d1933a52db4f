"""The table of the surface's calls."""

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
from coatcheck.surfaces.ingest.constants import KIND, LONGEST_NAME, MOST_FILES
from coatcheck.surfaces.ingest.documents import (
    CollectionPage,
    DocumentPage,
    IngestedDocument,
    SearchResults,
)
from coatcheck.surfaces.ingest.handlers import IngestHandlers
from coatcheck.surfaces.ingest.index.base import LONGEST_QUERY, MOST_RESULTS, Mode
from coatcheck.surfaces.ingest.intake import IngestRequest
from coatcheck.surfaces.ingest.submit import ingest

TAG = "documents"
_FORM: Schema = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "minItems": 1,
            "maxItems": MOST_FILES,
        },
        "collection": schema_of(Name),
        "metadata": {"type": "string", "description": "A JSON object of texts."},
        "name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
    },
    "required": ["files"],
    "additionalProperties": False,
}
_PREFER = Parameter(
    "Prefer",
    "`wait=N` waits up to N seconds for the result, `respond-async` answers at once (RFC 7240).",
    {"type": "string"},
    location="header",
)
_A_JOB = as_json(ref("Job"))
_CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}


def endpoints_for(calls: IngestHandlers) -> list[Endpoint]:
    """List the calls of a server."""
    return [_ingest(), *_collections(calls), *_documents(calls)]


def _ingest() -> Endpoint:
    return Endpoint(
        "POST",
        "/v1/ingest",
        ingest,
        "ingest",
        "Bring documents into a collection",
        TAG,
        {
            200: EndpointResponse(
                "It has ended: the wait was long enough, or the request was a repeated one.",
                _A_JOB,
                ("Location", "Preference-Applied", "Idempotency-Replayed"),
            ),
            202: EndpointResponse(
                "They are durable, and will be brought in.",
                _A_JOB,
                ("Location", "Retry-After", "Preference-Applied", "Idempotency-Replayed"),
                links_to_job=True,
            ),
        },
        error_statuses=(408, 409, 410, 413, 415, 422, 429),
        parameters=(IDEMPOTENCY_KEY, _PREFER, TRACEPARENT),
        body=EndpointBody(
            "Files in a form, or a url or a text as JSON.",
            {"multipart/form-data": _FORM, "application/json": IngestRequest.model_json_schema()},
        ),
        description=(
            "One document is one job, several are a job each and one that waits for them and has "
            "what became of each, in order. A document of a name that the collection has replaces "
            "that one once it is whole; the same bytes again cost nothing."
        ),
        kind=KIND,
    )


def _collections(calls: IngestHandlers) -> list[Endpoint]:
    return [
        Endpoint(
            "GET",
            "/v1/collections",
            calls.collections,
            "listCollections",
            "List collections",
            TAG,
            {200: EndpointResponse("All, by name.", as_json(schema_of(CollectionPage)))},
            kind=KIND,
        ),
        Endpoint(
            "GET",
            "/v1/collections/{collection}/documents",
            calls.documents,
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
                    "How many.",
                    {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                ),
                Parameter("cursor", "`next_cursor` of the page before.", _CURSOR),
            ),
            kind=KIND,
        ),
        Endpoint(
            "GET",
            "/v1/collections/{collection}/search",
            calls.search,
            "searchCollection",
            "Find passages of a collection",
            TAG,
            {200: EndpointResponse("Passages, best first.", as_json(schema_of(SearchResults)))},
            error_statuses=(404, 409),
            parameters=(
                Parameter(
                    "q",
                    "What to look for.",
                    {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY},
                    required=True,
                ),
                Parameter(
                    "k",
                    "How many passages (10).",
                    {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS},
                ),
                Parameter(
                    "filter",
                    "Only documents with this in their metadata, as key:value; several must all "
                    "be there.",
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


def _documents(calls: IngestHandlers) -> list[Endpoint]:
    return [
        Endpoint(
            "GET",
            "/v1/documents/{document_id}",
            calls.document,
            "getDocument",
            "Look at a document",
            TAG,
            {200: EndpointResponse("What is known of it.", as_json(schema_of(IngestedDocument)))},
            error_statuses=(404,),
            kind=KIND,
        ),
        Endpoint(
            "DELETE",
            "/v1/documents/{document_id}",
            calls.delete,
            "deleteDocument",
            "Remove a document from its collection",
            TAG,
            {204: EndpointResponse("It is gone, and not found any more.", {})},
            error_statuses=(404,),
            kind=KIND,
        ),
    ]
