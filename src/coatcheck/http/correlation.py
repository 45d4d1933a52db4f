"""A correlation id for every request: the caller's, or a new one. It is logged and given back."""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
