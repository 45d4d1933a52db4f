"""Requests from web pages to a server without keys.

A web page that a developer visits can make the browser send requests to 127.0.0.1, directly or
through a host name that resolves to it (DNS rebinding). While no keys exist, every request must
name a loopback host. If a page sends it, the page must be this server's own (same host and port) or
have a loopback origin that the operator allowed for CORS. Browsers send `Origin` and
`Sec-Fetch-Site`; other clients send neither and are served.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from coatcheck.errors import ConfigurationError

_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is loopback."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_bind_address(host: str, *, has_keys: bool, everywhere: bool = False) -> None:
    """Raise ConfigurationError if the server would listen beyond loopback without keys.

    With `everywhere`, keys are required on loopback too.
    """
    if not has_keys and (everywhere or not is_loopback(host)):
        raise ConfigurationError(
            f"refusing to listen on {host}: there are no API keys, so anyone who can reach this "
            "port could run jobs; listen on 127.0.0.1, or create a key first, with the same "
            "settings: coatcheck keys create --tenant default --scope admin"
        )


class RequestOrigin(NamedTuple):
    """The request headers that identify the page that sent the request, if one did."""

    host: bytes | None
    origin: bytes | None
    fetch_site: bytes | None

    @classmethod
    def of(cls, headers: Mapping[bytes, bytes]) -> RequestOrigin:
        """Read the headers."""
        get = headers.get
        return cls(get(b"host"), get(b"origin"), get(b"sec-fetch-site"))


@lru_cache(maxsize=256)
def is_local_request(source: RequestOrigin, allowed: frozenset[str]) -> bool:
    """Return whether a request names a loopback host and comes from no foreign page.

    If a page sent the request, the page must be this server's own or of an allowed loopback origin.
    """
    return _is_loopback_url(b"//" + (source.host or b"")) and (
        _is_own_page(source)
        or (_is_allowed(source, allowed) and _is_loopback_url(source.origin or b""))
    )


@lru_cache(maxsize=256)
def is_allowed_origin(source: RequestOrigin, allowed: frozenset[str]) -> bool:
    """Return whether a request comes from no page, an own page or an allowed origin."""
    return _is_own_page(source) or _is_allowed(source, allowed)


def _is_own_page(source: RequestOrigin) -> bool:
    if source.fetch_site not in (None, b"same-origin", b"none"):
        return False
    return source.origin is None or _is_same_origin(source.host or b"", source.origin)


def _is_allowed(source: RequestOrigin, allowed: frozenset[str]) -> bool:
    if source.origin is None:
        return False
    return "*" in allowed or source.origin.decode("latin-1") in allowed


def _is_same_origin(host: bytes, origin: bytes) -> bool:
    try:
        page = urlsplit(origin.decode("latin-1"))
        # Without a port the scheme's default applies.
        own = urlsplit(f"{page.scheme}://{host.decode('latin-1')}")
        usual = _PORTS[page.scheme]
        return (_name(page.hostname), page.port or usual) == (
            _name(own.hostname),
            own.port or usual,
        )
    except (KeyError, ValueError):
        return False


def _name(host: str | None) -> str:
    return (host or "").rstrip(".").lower()


def _is_loopback_url(url: bytes) -> bool:
    try:
        return is_loopback(urlsplit(url.decode("latin-1")).hostname or "")
    except ValueError:
        return False
