"""Requests of web pages, and a server that has no keys.

A web page that a developer visits can make the browser send requests to 127.0.0.1, directly or by
a host name that resolves to it. So while no keys are set up every request must name a loopback
host, and a page that sends one must be this server's own (same host and port), or of a loopback
origin that the operator has named for CORS. A browser says so by `Origin` and `Sec-Fetch-Site`; a
client that is no browser sends neither, and is served.
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
    """Tell whether a host name or address means this machine alone."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_bind_address(host: str, *, has_keys: bool, everywhere: bool = False) -> None:
    """Raise unless there are keys, or the server would listen on loopback only and that is enough:
    it is not where keys are asked for `everywhere`.
    """
    if not has_keys and (everywhere or not is_loopback(host)):
        raise ConfigurationError(
            f"refusing to listen on {host}: there are no API keys, so anybody who can reach this "
            "port could run jobs; listen on 127.0.0.1, or make one first, with the same settings: "
            "coatcheck keys create --tenant default --scope admin"
        )


class RequestOrigin(NamedTuple):
    """The headers of a request that tell which page sent it, if one did."""

    host: bytes | None
    origin: bytes | None
    fetch_site: bytes | None

    @classmethod
    def of(cls, headers: Mapping[bytes, bytes]) -> RequestOrigin:
        """Read them."""
        get = headers.get
        return cls(get(b"host"), get(b"origin"), get(b"sec-fetch-site"))


@lru_cache(maxsize=256)
def is_local_request(sender: RequestOrigin, allowed: frozenset[str]) -> bool:
    """Tell whether a request names a loopback host and, if a page sent it, is one of this server or
    of an allowed loopback origin.
    """
    return _is_loopback_url(b"//" + (sender.host or b"")) and (
        _is_own_page(sender)
        or (_is_allowed(sender, allowed) and _is_loopback_url(sender.origin or b""))
    )


@lru_cache(maxsize=256)
def is_allowed_origin(sender: RequestOrigin, allowed: frozenset[str]) -> bool:
    """Tell whether a request was sent by no page, by one of this server, or by one of an allowed
    origin.
    """
    return _is_own_page(sender) or _is_allowed(sender, allowed)


def _is_own_page(sender: RequestOrigin) -> bool:
    if sender.fetch_site not in (None, b"same-origin", b"none"):
        return False
    return sender.origin is None or _is_same_origin(sender.host or b"", sender.origin)


def _is_allowed(sender: RequestOrigin, allowed: frozenset[str]) -> bool:
    if sender.origin is None:
        return False
    return "*" in allowed or sender.origin.decode("latin-1") in allowed


def _is_same_origin(host: bytes, origin: bytes) -> bool:
    try:
        page = urlsplit(origin.decode("latin-1"))
        # A port that is not named is the scheme's.
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
