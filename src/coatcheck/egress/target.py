"""Strict parsing of untrusted URLs: a URL has one reading, or is rejected."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

from coatcheck.egress.address import Address
from coatcheck.errors import EgressDenied

LONGEST_URL = 2048
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?"
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Some libraries read a host as an address if its last label is a number.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class EgressTarget(NamedTuple):
    """The target of a call. `address` is set if the host is an address."""

    scheme: str
    host: str
    port: int
    path: str  # including the query
    address: Address | None = None

    @property
    def origin(self) -> str:
        """The scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL, normalized."""
        return f"{self.origin}{self.path}"


def read_target(url: str) -> EgressTarget:
    """Parse a URL; raise EgressDenied with the reason if it is not valid."""
    if len(url) > LONGEST_URL:
        raise denied(f"a URL may have at most {LONGEST_URL:,} characters")
    if not all("!" <= character <= "~" for character in url) or "\\" in url:
        raise denied("a URL must be plain ASCII, with other characters as %XX")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise denied("it must be a URL such as https://example.com/hook, without a #fragment")
    scheme = parts["scheme"].lower()
    if scheme not in _PORTS:
        raise denied("only http and https are allowed")
    if "@" in parts["authority"]:
        raise denied("a URL must not contain a user name or a password")
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        raise denied("the host is neither a plain name nor an address")
    port = _PORTS[scheme] if authority["port"] is None else int(authority["port"])
    if not 0 < port < 65536:
        raise denied("the port must be between 1 and 65535")
    path = (parts["path"] or "/") + (parts["query"] or "")
    host, address = _read_host(authority["host"].lower())
    return EgressTarget(scheme, host, port, path, address)


def _read_host(written: str) -> tuple[str, Address | None]:
    """Return a host in its canonical form, and its address if it is one."""
    if written.startswith("["):
        try:
            address: Address = IPv6Address(written[1:-1])
        except AddressValueError:
            raise denied("the text in brackets is not an IPv6 address") from None
        return str(address), address
    name = written.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = IPv4Address(name)
        except AddressValueError:
            raise denied("an IPv4 address must be four plain numbers, such as 192.0.2.1") from None
        return str(address), address
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise denied("the host is neither a plain name nor an address")
    return name, None


def denied(what: str) -> EgressDenied:
    """Return an EgressDenied error with a reason."""
    return EgressDenied(f"this address is not allowed: {what}", [("/url", what)])
