"""The door of a server that has no keys: loopback only, and safe from web pages.

A web page that a developer visits can make the browser send requests to 127.0.0.1, directly or by
a host name that resolves to it. So while no keys are set up every request must name a loopback
host, and one that comes from a page must come from a loopback origin.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from coatcheck.errors import ConfigurationError
from coatcheck.http.problem import problem


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address means this machine alone."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def refuse_public_bind(host: str) -> None:
    """Raise unless the server would listen on loopback only."""
    if not is_loopback(host):
        raise ConfigurationError(
            f"refusing to listen on {host}: there are no API keys, so anybody who can reach this "
            "port could run jobs; listen on 127.0.0.1 and put a proxy with authentication before it"
        )


@lru_cache(maxsize=256)
def _is_here(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


class LoopbackGuard:
    """ASGI middleware that lets only requests through that a loopback client made on purpose."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            from_here = origin is None or _is_here(origin)
            if not _is_here(f"//{headers.get('host', '')}") or not from_here:
                refusal = problem(
                    403, "not-loopback", "this server has no keys and serves loopback clients only"
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
