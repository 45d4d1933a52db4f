"""A correlation id for every request: the caller's, or a new one. It is logged and given back."""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.http.problem import answer_unexpected
from coatcheck.logs import correlation_id

HEADER = "X-Correlation-Id"
_USABLE = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Correlation:
    """ASGI middleware that sets the id for the length of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        current = given if _USABLE.fullmatch(given) else secrets.token_hex(8)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = current
            await send(message)

        token = correlation_id.set(current)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            correlation_id.reset(token)


class ErrorBoundary:
    """ASGI middleware, inside the correlation, that answers what no route has answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; an unexpected error is logged and becomes a 500."""
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, note_start)
        except ClientDisconnect:
            return  # it left in the middle of its request: there is nobody to answer
        except Exception as error:
            if started or scope["type"] != "http":
                raise
            await answer_unexpected(error)(scope, receive, send)
