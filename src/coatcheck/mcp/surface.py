"""The door for assistants: `POST /mcp`.

A request passes the same door as all others, and is read the way every JSON body is. What is left
of it is handed to the protocol's own library, which is imported with the first request that needs
it: a server that no assistant asks pays nothing for it.
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
from coatcheck.mcp.names import INTERNAL_ERROR, INVALID_REQUEST, PATH, SURFACE
from coatcheck.settings import Settings

if TYPE_CHECKING:  # it brings the library along
    from coatcheck.mcp.server import Protocol

LIBRARY = "mcp"
MISSING = "pip install 'coatcheck[mcp]' where the server runs"
_MESSAGE: Schema = {
    "type": "object",
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "method": {"type": "string"},
        "params": {"type": "object"},
    },
    # A request or a notification; or the answer to a request of the server's.
    "anyOf": [{"required": ["method"]}, {"required": ["id", "result"]}],
}


class McpSurface(Surface):
    """Every kind as a tool, for those who speak MCP over streamable HTTP."""

    name = SURFACE
    prefixes = (PATH,)

    def __init__(self) -> None:
        self._wait_s = Settings().mcp_wait_s
        self._protocol: Protocol | None = None
        self.endpoints = (
            Endpoint(
                "POST",
                PATH,
                self.answer,
                "mcp",
                "Speak the Model Context Protocol",
                "mcp",
                {
                    200: EndpointResponse(
                        "The answer.", {JSON: _MESSAGE, EVENT_STREAM: {"type": "string"}}
                    ),
                    202: EndpointResponse("A notification was taken.", {}),
                },
                error_statuses=(404, 408, 413, 415, 501),
                parameters=(TRACEPARENT,),
                body=EndpointBody("A JSON-RPC message.", {JSON: _MESSAGE}),
                # What a key is good for decides which tools it finds, not whether it comes in.
                access=Access.AUTHENTICATED,
                error_media={JSON: _MESSAGE},
            ),
        )

    def declare(self, app: App) -> None:
        """Declare nothing: the kinds of others are the tools."""

    def configure(self, settings: Settings) -> None:
        """Take how long a call waits for its job."""
        self._wait_s = settings.mcp_wait_s

    def optional_parts(self) -> Iterable[OptionalPart]:
        """Say whether the library is there."""
        found = library_version()
        if found is None:
            yield OptionalPart(
                f"{LIBRARY} not found: assistants cannot use kinds as tools", MISSING
            )
        else:
            yield OptionalPart(f"{LIBRARY} {found}: assistants can use kinds as tools, at {PATH}")

    def format_error(self, refusal: ErrorResponse, path: str) -> Response:  # noqa: ARG002 - the same everywhere
        """Write a refusal as a JSON-RPC error: it is not known which message it is about."""
        code = INTERNAL_ERROR if refusal.status >= 500 else INVALID_REQUEST
        error = {"code": code, "message": refusal.detail}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
        return JSONResponse(body, refusal.status, refusal.headers)

    async def answer(self, request: Request) -> Response:
        """Take a message of the Model Context Protocol (streamable HTTP, without sessions), and
        answer it as JSON or as server-sent events. Every kind that the key may submit is a tool.
        """
        _check_origin(request)
        request.scope["coatcheck.tenant"] = caller_of(request).tenant
        message = await read_json(request)
        protocol = self._protocol or await self._speak()
        return protocol.answer(dumps(message).encode())

    async def _speak(self) -> Protocol:
        if library_version() is None:
            raise HTTPException(501, f"this server does not speak MCP: {MISSING}")
        # A second of imports, while the loop answers others.
        module = await asyncio.to_thread(import_module, "coatcheck.mcp.server")
        self._protocol = protocol = module.Protocol(self._wait_s)
        return cast("Protocol", protocol)


def _check_origin(request: Request) -> None:
    """Refuse pages of other origins, with a key or without, as the protocol asks of servers."""
    sender = RequestOrigin.of(dict(request.scope["headers"]))
    if not is_allowed_origin(sender, request.app.state.origins):
        raise HTTPException(
            403, "pages of this origin may not call: COATCHECK_CORS_ORIGINS names those that may"
        )


def library_version() -> str | None:
    """Return which version of the protocol's library is installed; None: it is not."""
    try:
        return version(LIBRARY)
    except PackageNotFoundError:
        return None
