"""Who may be called: the rules of this server, and the one resolution of a name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from coatcheck.egress.address import Address, is_public
from coatcheck.egress.lookup import Lookups
from coatcheck.egress.target import EgressTarget, denied, read_target
from coatcheck.errors import ConfigurationError, EgressDenied, EgressFailed

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# How long a name may take to be looked up while somebody waits for the answer to a request.
LOOK_S = 2.0


class EgressPolicy:
    """The rules, and what the operator has opened beyond them."""

    def __init__(self, allow: str = "", resolver: Resolver | None = None) -> None:
        self._resolver = resolver or Lookups()
        self._names: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in filter(None, (part.strip().lower() for part in allow.split(","))):
            self._open(entry)

    def _open(self, entry: str) -> None:
        try:
            self._networks.append(ip_network(entry.strip("[]")))
        except ValueError:
            try:
                name = read_target(f"http://{entry.removeprefix('*.')}/")
            except EgressDenied:
                name = None
            if name is None or name.address is not None or name.port != 80:
                raise ConfigurationError(
                    f"egress_allow: {entry!r} is no host name, *.name, address or network"
                ) from None
            self._names.add(entry.removesuffix("."))

    def read(self, url: str) -> EgressTarget:
        """Read a URL and judge what can be judged without a lookup; raises EgressDenied."""
        target = read_target(url)
        if target.address is not None:
            self._check(target, [target.address])
        elif not self._is_open(target.host) and target.host.split(".")[-1] == "localhost":
            raise _not_public()
        return target

    async def look(self, url: str) -> EgressTarget:
        """Do the same, and look where the name leads now; raises EgressDenied.

        A name that leads nowhere yet is let through: the connection is what counts, and it looks
        again.
        """
        target = self.read(url)
        try:
            async with asyncio.timeout(LOOK_S):
                await self.addresses(target)
        except (EgressFailed, TimeoutError):
            pass
        return target

    async def addresses(self, target: EgressTarget) -> list[str]:
        """Resolve a target, once, and return where it may be called; raises EgressDenied where one
        of its addresses may not be, EgressFailed where it has none.
        """
        if target.address is not None:
            self._check(target, [target.address])
            return [str(target.address)]
        try:
            found = [ip_address(text) for text in await self._resolver(target.host, target.port)]
        except (OSError, UnicodeError, ValueError):
            found = []
        if not found:
            raise EgressFailed("the host's name could not be resolved")
        self._check(target, found)
        return list(dict.fromkeys(str(address) for address in found))

    def _check(self, target: EgressTarget, addresses: Sequence[Address]) -> None:
        if self._is_open(target.host):
            return
        for address in addresses:
            opened = any(address in network for network in self._networks)
            if not opened and not is_public(address):
                raise _not_public()

    def _is_open(self, host: str) -> bool:
        if host in self._names:
            return True
        labels = host.split(".")
        return any("*." + ".".join(labels[at:]) in self._names for at in range(1, len(labels)))


def _not_public() -> EgressDenied:
    return denied("it is not a public one, and not opened by COATCHECK_EGRESS_ALLOW")
