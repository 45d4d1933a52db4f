"""The protocol itself: its library's server, and how one request is handed to it.

The library keeps sessions where it is let. Here it is not: for each request it begins anew and is
done with it, so nothing runs between two requests and nothing has to be shut down.
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
    "Each tool hands in a job, which is durable as soon as the call is answered: it survives "
    "restarts, and goes on when you stop waiting for it. A call that does not end in a few seconds "
    "answers with the job's id; come back for the result with job_result, which can wait, look at "
    "it with job_status, stop it with job_cancel. Do not call the tool again for the same work."
)


class Protocol:
    """What answers the messages of a server."""

    def __init__(self, wait_s: float) -> None:
        calls, tasks = ToolCalls(wait_s), Tasks()
        self._server: Server[Any] = Server(
            "coatcheck",
            version=version("coatcheck"),
            title="Coatcheck",
            instructions=INSTRUCTIONS,
            on_list_tools=calls.tools,
            # No argument of ours is to be given a second time, as a header.
            get_tool_input_schema=lambda _name: None,
        )
        self._server.middleware.clear()  # spans are ours to make, with the job
        self._server.extensions[EXTENSION] = {}
        handle = self._server.add_request_handler
        handle("tools/call", types.CallToolRequestParams, calls.call)
        handle("tasks/get", TaskParams, tasks.get)
        handle("tasks/update", UpdateParams, tasks.update)
        handle("tasks/cancel", TaskParams, tasks.cancel)

    def answer(self, body: bytes) -> Response:
        """Return the answer to a message that was read; it is made while it is sent."""
        return _Answer(self._server, body)


class _Answer(Response):
    def __init__(self, server: Server[Any], body: bytes) -> None:
        super().__init__()
        self._server = server
        self._message = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            self._server, stateless=True, max_request_body_size=2 * JSON_LIMIT
        )
        async with manager.run():
            await manager.handle_request(scope, _once_more(self._message, receive), send)


def _once_more(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read before, and then whatever else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
