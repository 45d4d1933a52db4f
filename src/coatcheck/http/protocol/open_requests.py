"""ASGI middleware that limits how many requests a tenant has open at a time.

It counts a request until its response is sent in full, so a stream, a long poll, a claim that waits
and an upload all count for as long as they hold a connection, on every endpoint of every surface.
Submits are answered before they reach it (http/auth/middleware.py), which is right: they do not
wait, and one that does (`Prefer: wait`) is counted by its handler.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from coatcheck.engine.open_requests import TenantOpenLimit


class LimitOpenRequests:
    """Counts requests by the tenant of their key."""

    def __init__(self, app: ASGIApp, open_requests: TenantOpenLimit) -> None:
        self._app = app
        self._open_requests = open_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its tenant has too many open."""
        caller = scope.get("coatcheck.caller")  # none where a call is open to everybody
        if caller is None:
            await self._app(scope, receive, send)
            return
        with self._open_requests.hold(caller.tenant):
            await self._app(scope, receive, send)
