"""The egress policy: which addresses may be called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from coatcheck.egress.address import Address, is_public
from coatcheck.egress.resolver import SystemResolver
from coatcheck.egress.target import EgressTarget, denied, read_target
from coatcheck.errors import ConfigurationError, EgressDenied, EgressFailed

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# How long a lookup may take while a caller waits for the response to its request.
LOOKUP_S = 2.0


class EgressPolicy:
    """Public addresses, and those that the operator has allowed."""

    def __init__(self, allow: str = "", resolver: Resolver | None = None) -> None:
        self._resolver = resolver or SystemResolver()
        self._names: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in filter(None, (part.strip().lower() for part in allow.split(","))):
            self._allow(entry)

    def _allow(self, entry: str) -> None:
        try:
            self._networks.append(ip_network(entry.strip("[]")))
        except ValueError:
            try:
                name = read_target(f"http://{entry.removeprefix('*.')}/")
            except EgressDenied:
                name = None
            if name is None or name.address is not None or name.port != 80:
                raise ConfigurationError(
                    f"egress_allow: {entry!r} is not a host name, *.name, address or network"
                ) from None
            self._names.add(entry.removesuffix("."))

    def check_url(self, url: str) -> EgressTarget:
        """Parse a URL and check it without a lookup; raise EgressDenied if it is not allowed."""
        target = read_target(url)
        if target.address is not None:
            self._check(target, [target.address])
        elif not self._is_allowed(target.host) and target.host.split(".")[-1] == "localhost":
            raise _not_public()
        return target

    async def check_resolved(self, url: str) -> EgressTarget:
        """Parse a URL, resolve its name and check the addresses; raise EgressDenied if one is not
        allowed.

        A name that cannot be resolved yet is accepted: every connection checks again.
        """
        target = self.check_url(url)
        try:
            async with asyncio.timeout(LOOKUP_S):
                await self.addresses(target)
        except (EgressFailed, TimeoutError):
            pass
        return target

    async def addresses(self, target: EgressTarget) -> list[str]:
        """Resolve a target once, and return the addresses to connect to.

        Raise EgressDenied if one of them is not allowed, EgressFailed if there are none.
        """
        if target.address is not None:
            self._check(target, [target.address])
            return [str(target.address)]
        try:
            found = [ip_address(text) for text in await self._resolver(target.host, target.port)]
        except (OSError, UnicodeError, ValueError):
            found = []
        if not found:
            raise EgressFailed("the host name could not be resolved")
        self._check(target, found)
        return list(dict.fromkeys(str(address) for address in found))

    def _check(self, target: EgressTarget, addresses: Sequence[Address]) -> None:
        if self._is_allowed(target.host):
            return
        for address in addresses:
            opened = any(address in network for network in self._networks)
            if not opened and not is_public(address):
                raise _not_public()

    def _is_allowed(self, host: str) -> bool:
        if host in self._names:
            return True
        labels = host.split(".")
        return any("*." + ".".join(labels[at:]) in self._names for at in range(1, len(labels)))


def _not_public() -> EgressDenied:
    return denied("it is not public, and COATCHECK_EGRESS_ALLOW does not allow it")
