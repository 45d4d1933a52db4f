"""McpSurface: the endpoint `POST /mcp`.

A request passes the same authentication and body parsing as any other. The MCP library handles the
message. It is imported with the first such request, so an unused endpoint costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.app import App
from coatcheck.http.auth.caller import caller_of
from coatcheck.http.auth.loopback import RequestOrigin, is_allowed_origin
from coatcheck.http.endpoint import (
    JSON,
    TRACEPARENT,
    Access,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    Schema,
)
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.jobs.events import EVENT_STREAM
from coatcheck.http.jobs.views import dumps
from coatcheck.http.request.body import read_json
from coatcheck.http.surfaces.base import OptionalPart, Surface
from coatcheck.mcp.constants import INTERNAL_ERROR, INVALID_REQUEST, PATH, SURFACE
from coatcheck.settings import Settings

if TYPE_CHECKING:  # imports the MCP library
    from coatcheck.mcp.server import Protocol

LIBRARY = "mcp"
INSTALL_HINT = "pip install 'coatcheck[mcp]' on the server"
_MESSAGE: Schema = {
    "type": "object",
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "method": {"type": "string"},
        "params": {"type": "object"},
    },
    # A request, a notification, or a response to a request of the server.
    "anyOf": [{"required": ["method"]}, {"required": ["id", "result"]}],
}


class McpSurface(Surface):
    """Every kind as a tool, over MCP's streamable HTTP transport."""

    name = SURFACE
    prefixes = (PATH,)

    def __init__(self) -> None:
        self._wait_s = Settings().mcp_wait_s
        self._protocol: Protocol | None = None
        self.endpoints = (
            Endpoint(
                "POST",
                PATH,
                self.handle,
                "mcp",
                "Handle a Model Context Protocol message",
                "mcp",
                {
                    200: EndpointResponse(
                        "The response.", {JSON: _MESSAGE, EVENT_STREAM: {"type": "string"}}
                    ),
                    202: EndpointResponse("A notification was accepted.", {}),
                },
                error_statuses=(404, 408, 413, 415, 501),
                parameters=(TRACEPARENT,),
                body=EndpointBody("A JSON-RPC message.", {JSON: _MESSAGE}),
                # The key's scopes decide which tools are listed; any key may call.
                access=Access.AUTHENTICATED,
                error_media={JSON: _MESSAGE},
            ),
        )

    def declare(self, app: App) -> None:
        """Declare nothing: the tools are the kinds of the app and the other surfaces."""

    def configure(self, settings: Settings) -> None:
        """Read how long a call waits for its job."""
        self._wait_s = settings.mcp_wait_s

    def optional_parts(self) -> Iterable[OptionalPart]:
        """Report whether the MCP library is installed."""
        found = library_version()
        if found is None:
            yield OptionalPart(
                f"{LIBRARY} not found: MCP clients cannot use kinds as tools", INSTALL_HINT
            )
        else:
            yield OptionalPart(f"{LIBRARY} {found}: MCP clients can use kinds as tools, at {PATH}")

    def format_error(self, refusal: ErrorResponse, path: str) -> Response:  # noqa: ARG002 - the same everywhere
        """Format an error as JSON-RPC; the message id is unknown here."""
        code = INTERNAL_ERROR if refusal.status >= 500 else INVALID_REQUEST
        error = {"code": code, "message": refusal.detail}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
        return JSONResponse(body, refusal.status, refusal.headers)

    async def handle(self, request: Request) -> Response:
        """Handle a Model Context Protocol message (streamable HTTP, without sessions).

        The response is JSON or server-sent events. Every kind that the key may submit is a tool.
        """
        _check_origin(request)
        request.scope["coatcheck.tenant"] = caller_of(request).tenant
        message = await read_json(request)
        protocol = self._protocol or await self._load_protocol()
        return protocol.respond(dumps(message).encode())

    async def _load_protocol(self) -> Protocol:
        if library_version() is None:
            raise HTTPException(501, f"this server does not support MCP: {INSTALL_HINT}")
        # The import takes a second; the event loop stays free.
        module = await asyncio.to_thread(import_module, "coatcheck.mcp.server")
        self._protocol = protocol = module.Protocol(self._wait_s)
        return cast("Protocol", protocol)


def _check_origin(request: Request) -> None:
    """Reject foreign browser origins, even with a key, as the protocol requires."""
    sender = RequestOrigin.of(dict(request.scope["headers"]))
    if not is_allowed_origin(sender, request.app.state.origins):
        raise HTTPException(403, "this origin is not allowed; add it to COATCHECK_CORS_ORIGINS")


def library_version() -> str | None:
    """Return the installed version of the MCP library, or None."""
    try:
        return version(LIBRARY)
    except PackageNotFoundError:
        return None
