"""The endpoints of the surface."""

from __future__ import annotations

from dataclasses import replace

from coatcheck.http.endpoint import (
    IDEMPOTENCY_KEY,
    JSON,
    TRACEPARENT,
    Endpoint,
    EndpointBody,
    EndpointResponse,
)
from coatcheck.surfaces.graphs.constants import KIND, PREFIX, GraphKind
from coatcheck.surfaces.graphs.handlers import call_for
from coatcheck.surfaces.graphs.settings import GraphSettings

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_MAYBE_TEXT = {"type": ["string", "null"]}
_MAYBE_COUNT = {"type": ["integer", "null"], "minimum": 0}
_BYTES = {"type": "string", "format": "binary"}

ERROR = {
    "type": "object",
    "required": ["status", "code", "message", "timestamp", "requestId", "details"],
    "properties": {
        "status": {"type": "integer"},
        "code": _TEXT,
        "message": _TEXT,
        "timestamp": {"type": "string", "format": "date-time"},
        "requestId": _MAYBE_TEXT,
        "details": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": _TEXT, "issue": _TEXT}},
        },
    },
}
_NODE = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "kind": {"enum": ["file", "module", "class", "function", "method", "external"]},
        "name": _TEXT,
        "qualified_name": _TEXT,
        "file": _MAYBE_TEXT,
        "line": _MAYBE_COUNT,
        "end_line": _MAYBE_COUNT,
        "language": _MAYBE_TEXT,
        "signature": _MAYBE_TEXT,
    },
}
_EDGE = {
    "type": "object",
    "properties": {
        "source": _TEXT,
        "target": _TEXT,
        "kind": {"enum": ["calls", "imports", "defines", "inherits"]},
        "line": _MAYBE_COUNT,
    },
}
_DOMAIN = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "name": _TEXT,
        "files": {"type": "array", "items": _TEXT},
        "modules": {"type": "array", "items": _TEXT},
        "uses": {
            "type": "array",
            "items": {"type": "object", "properties": {"domain": _TEXT, "count": _COUNT}},
        },
    },
}
_GRAPH = {
    "type": "object",
    "required": ["nodes", "edges", "stats"],
    "properties": {
        "nodes": {"type": "array", "items": _NODE},
        "edges": {"type": "array", "items": _EDGE},
        "domains": {"type": "array", "items": _DOMAIN},
        "stats": {"type": "object"},
    },
}
_PENDING = {
    "type": "object",
    "required": ["status", "jobId", "retryAfter"],
    "properties": {
        "status": {"enum": ["pending", "processing"]},
        "jobId": _TEXT,
        "retryAfter": _COUNT,
    },
}
_ENDED = {
    "type": "object",
    "required": ["status", "jobId", "retryAfter"],
    "properties": {
        "status": {"enum": ["completed", "failed"]},
        "jobId": _TEXT,
        "retryAfter": _COUNT,
        "result": _GRAPH,
        "error": _TEXT,
    },
}
_KEY = replace(
    IDEMPOTENCY_KEY,
    description="Send the same key again, without the archive, to ask for the graph.",
    required=True,
)
_SUMMARIES = {
    GraphKind.CALL: ("graphCalls", "Who calls whom"),
    GraphKind.DEPENDENCY: ("graphDependencies", "Which module imports which"),
    GraphKind.PARSE: ("graphDefinitions", "What is defined where"),
    GraphKind.DOMAIN: ("graphDomains", "Which modules belong together"),
    GraphKind.ALL: ("graphAll", "All of it in one pass"),
}


def endpoints_for(settings: GraphSettings) -> list[Endpoint]:
    """List the endpoints of a server."""
    return [
        Endpoint(
            "POST",
            f"{PREFIX}/{graph}",
            call_for(graph, settings),
            name,
            summary,
            "graphs",
            {
                200: EndpointResponse("The graph, or why there is none.", {JSON: _ENDED}),
                202: EndpointResponse(
                    "It is being made: come back with the same key.",
                    {JSON: _PENDING},
                    ("Retry-After",),
                ),
            },
            error_statuses=(404, 408, 413, 415, 429),
            parameters=(_KEY, TRACEPARENT),
            body=EndpointBody(
                "A zip of the codebase: in a form with nothing beside it, or as it is. None is "
                "needed where the key stands for a job already.",
                {
                    "multipart/form-data": {
                        "type": "object",
                        "properties": {"file": _BYTES},
                        "required": ["file"],
                    },
                    "application/zip": _BYTES,
                },
                required=False,
            ),
            description=(
                "The first archive under a key counts; another one under it is not looked at. "
                "What was sent is deleted as soon as the graph is made, after an hour in any case."
            ),
            kind=KIND,
            error_media={JSON: ERROR},
        )
        for graph, (name, summary) in _SUMMARIES.items()
    ]
