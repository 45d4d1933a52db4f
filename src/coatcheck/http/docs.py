"""The API documentation: OpenAPI, and a page that loads nothing from other servers."""

from __future__ import annotations

import json
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.http.endpoint import JSON

_FILES = files("coatcheck.http") / "pages"
_MEDIA = {"docs.js": "text/javascript", "docs.css": "text/css"}
# Only resources of this server, and nothing inline.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


async def get_openapi(request: Request) -> Response:
    """Return the OpenAPI description of this server."""
    return Response(json.dumps(request.app.state.openapi()), media_type=JSON)


async def get_page(_request: Request) -> Response:
    """Return the documentation page."""
    return Response((_FILES / "docs.html").read_bytes(), 200, _HEADERS, "text/html")


async def get_file(request: Request) -> Response:
    """Return a file of the documentation page."""
    name = request.path_params["name"]
    if name not in _MEDIA:
        raise HTTPException(404, "there is no such file")
    return Response((_FILES / name).read_bytes(), 200, _HEADERS, _MEDIA[name])
