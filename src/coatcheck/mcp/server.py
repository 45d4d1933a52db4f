"""The MCP library's server, run once for each HTTP request.

The library supports sessions; they are disabled here. Each request gets a new session manager, so
nothing runs between requests and nothing must be shut down.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from coatcheck.http.request.body import JSON_LIMIT
from coatcheck.mcp.calls import ToolCalls
from coatcheck.mcp.tasks import EXTENSION, TaskParams, Tasks, UpdateParams

INSTRUCTIONS = (
    "Each tool submits a job. The job is durable once the call returns: it survives restarts and "
    "continues if you stop waiting. If a job takes longer than a few seconds, the call returns the "
    "job's id. Get the result with job_result, which can wait; check the job with job_status; stop "
    "it with job_cancel. Do not call the tool again for the same work."
)


class Protocol:
    """The message handlers of a server."""

    def __init__(self, wait_s: float) -> None:
        calls, tasks = ToolCalls(wait_s), Tasks()
        self._server: Server[Any] = Server(
            "coatcheck",
            version=version("coatcheck"),
            title="Coatcheck",
            instructions=INSTRUCTIONS,
            on_list_tools=calls.tools,
            # Our tools do not repeat arguments as headers.
            get_tool_input_schema=lambda _name: None,
        )
        self._server.middleware.clear()  # spans are created with the job
        self._server.extensions[EXTENSION] = {}
        handle = self._server.add_request_handler
        handle("tools/call", types.CallToolRequestParams, calls.call)
        handle("tasks/get", TaskParams, tasks.get)
        handle("tasks/update", UpdateParams, tasks.update)
        handle("tasks/cancel", TaskParams, tasks.cancel)

    def respond(self, body: bytes) -> Response:
        """Return the response to a message; it is computed while it is sent."""
        return _McpResponse(self._server, body)


class _McpResponse(Response):
    def __init__(self, server: Server[Any], body: bytes) -> None:
        super().__init__()
        self._server = server
        self._message = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            self._server, stateless=True, max_request_body_size=2 * JSON_LIMIT
        )
        async with manager.run():
            await manager.handle_request(scope, _replay(self._message, receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields a body that was already read, then the original messages."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
