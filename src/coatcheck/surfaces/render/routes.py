"""The surface's endpoints."""

from __future__ import annotations

from coatcheck.http.endpoint import (
    ANY,
    IDEMPOTENCY_KEY,
    JSON,
    TRACEPARENT,
    Access,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Parameter,
)
from coatcheck.http.surfaces.jobs import ERROR
from coatcheck.surfaces.render.diagram import KIND
from coatcheck.surfaces.render.drawing import LONGEST_SOURCE, Format, Output
from coatcheck.surfaces.render.handlers import MODES, RenderHandlers

_TEXT = {"type": "string"}
_LINK = {
    "type": "object",
    "required": ["shortlink", "url"],
    "properties": {"shortlink": _TEXT, "url": _TEXT, "cached": {"const": True}},
}
_SUBMITTED = {
    "type": "object",
    "required": ["jobId", "status", "statusUrl"],
    "properties": {"jobId": _TEXT, "status": {"const": "pending"}, "statusUrl": _TEXT},
}
_DIAGRAM = {
    "type": "object",
    "required": ["source", "format"],
    "additionalProperties": False,
    "properties": {
        "source": {"type": "string", "minLength": 1, "maxLength": LONGEST_SOURCE},
        "format": {"enum": list(Format)},
        "outputType": {"enum": list(Output), "default": Output.SVG},
    },
}
_MODE = Parameter(
    "mode",
    "`sync` waits for the picture, `async` responds at once.",
    {"enum": list(MODES), "default": "async"},
)


def endpoints_for(handlers: RenderHandlers) -> list[Endpoint]:
    """List the endpoints of a server."""
    return [
        Endpoint(
            "POST",
            "/render",
            handlers.render,
            "render",
            "Draw a diagram",
            "render",
            {
                200: EndpointResponse("The link to the picture.", {JSON: _LINK}),
                202: EndpointResponse("The diagram will be drawn.", {JSON: _SUBMITTED}),
            },
            error_statuses=(408, 409, 410, 413, 415, 422, 429, 500),
            parameters=(_MODE, IDEMPOTENCY_KEY, TRACEPARENT),
            body=EndpointBody("The diagram.", {JSON: _DIAGRAM}),
            kind=KIND,
            error_media={JSON: ERROR},
        ),
        Endpoint(
            "GET",
            "/d/{shortlink}",
            handlers.picture,
            "getPicture",
            "Get a picture",
            "render",
            {
                200: EndpointResponse("The picture.", {ANY: {}}),
                304: EndpointResponse("The picture has not changed.", {}),
            },
            error_statuses=(404, 429),
            access=Access.PUBLIC,
            is_capability=True,
            error_media={JSON: ERROR},
        ),
        Endpoint(
            "GET",
            "/health",
            handlers.health,
            "renderHealth",
            "Check that this process is alive",
            "render",
            {200: EndpointResponse("The process is alive.", {JSON: {"type": "object"}})},
            access=Access.PUBLIC,
            error_media={JSON: ERROR},
        ),
    ]
