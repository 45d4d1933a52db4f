"""The door of a server that has no keys: loopback only, and safe from web pages.

A web page that a developer visits can make the browser send requests to 127.0.0.1, directly or by
a host name that resolves to it. So while no keys are set up every request must name a loopback
host, and one that comes from a page must come from a loopback origin.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from coatcheck.errors import ConfigurationError


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address means this machine alone."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def refuse_without_keys(host: str, *, has_keys: bool, everywhere: bool = False) -> None:
    """Raise unless there are keys, or the server would listen on loopback only and that is enough:
    it is not where keys are asked for `everywhere`.
    """
    if not has_keys and (everywhere or not is_loopback(host)):
        raise ConfigurationError(
            f"refusing to listen on {host}: there are no API keys, so anybody who can reach this "
            "port could run jobs; listen on 127.0.0.1, or make one first, with the same settings: "
            "coatcheck keys create --tenant default --scope admin"
        )


@lru_cache(maxsize=256)
def comes_from_here(host: bytes | None, origin: bytes | None) -> bool:
    """Tell whether a request names a loopback host and, if a page sent it, a loopback origin."""
    return _is_here(b"//" + (host or b"")) and (origin is None or _is_here(origin))


def _is_here(url: bytes) -> bool:
    try:
        return is_loopback(urlsplit(url.decode("latin-1")).hostname or "")
    except ValueError:
        return False
