"""The server's address and API key: from arguments or from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from coatcheck.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address and the headers that authenticate; `repr` hides all secrets."""

    url: str
    headers: Mapping[str, str]

    @property
    def shown(self) -> str:
        """The address without its password."""
        return without_password(self.url)

    def __repr__(self) -> str:
        return f"<ServerAddress {self.shown}>"


def without_password(url: str) -> str:
    """Return a URL without its user name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def find_address(url: str | None, api_key: str | None) -> ServerAddress:
    """Return the given address, or the one in COATCHECK_URL and COATCHECK_API_KEY.

    The default is `http://127.0.0.1:8080` without a key.
    """
    found = url if url is not None else os.environ.get("COATCHECK_URL") or DEFAULT_URL
    key = api_key if api_key is not None else os.environ.get("COATCHECK_API_KEY", "")
    return ServerAddress(_check_url(found.strip()), _authorization(key.strip()))


def _check_url(url: str) -> str:
    import httpx2  # noqa: PLC0415 - most CLI commands import this module but send no request

    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        usable = usable and not parts.query and not parts.fragment
        usable = usable and url.isprintable() and " " not in url
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if not usable:
        shown = url.rpartition("@")[2]
        raise ConfigurationError(
            f"{shown!r} is not the address of a server; write it as {DEFAULT_URL}"
        )
    return url.rstrip("/")


def _authorization(key: str) -> dict[str, str]:
    if not key:
        return {}
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError("the API key contains characters that no key has")
    return {"authorization": f"Bearer {key}"}
