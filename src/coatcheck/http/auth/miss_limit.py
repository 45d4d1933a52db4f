"""A rate limit on guessing capability links, which need no key.

The link is the permission, so guessing is the attack. A lookup that finds nothing (a miss) costs
one token of the client's budget and one of the global budget; both refill with time. While either
is empty every lookup answers 429, whether or not the link exists: a response that depended on it
would help the guesser.

- A repeated miss of the same link is free. A popular page with a dead image uses up no budget, and
  a guesser does not try a link twice.
- A client is an IPv4 address or an IPv6 /64. Behind a reverse proxy all clients share the proxy's
  address, so if the peer is loopback or private, the last entry of `X-Forwarded-For` counts, which
  the proxy wrote. Without a proxy it can be forged; the global budget still applies.
- Each process has its own budgets, for a bounded number of clients.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coatcheck.clock import Clock
from coatcheck.errors import NotFound
from coatcheck.http.endpoint import Handler

MISSES_PER_MINUTE = 30
MISSES_PER_MINUTE_TOTAL = 600
MAX_CLIENTS = 10_000
MAX_KNOWN_MISSES = 10_000
_MAX_LINK_LENGTH = 100
_TOO_MANY = "too many unknown links were requested: try again later"


class TokenBucket:
    """A token bucket that refills per minute; its capacity is one minute's tokens."""

    __slots__ = ("_per_minute", "_since", "_tokens")

    def __init__(self, per_minute: int, now: float) -> None:
        self._per_minute = per_minute
        self._tokens = float(per_minute)
        self._since = now

    def seconds_until_token(self, now: float) -> float:
        """Return the time until there is a token; 0 if there is one."""
        refilled = self._tokens + (now - self._since) * self._per_minute / 60
        self._tokens, self._since = min(float(self._per_minute), refilled), now
        return max(0.0, (1 - self._tokens) * 60 / self._per_minute)

    def take(self) -> None:
        """Take a token. Concurrent requests may take the count below zero."""
        self._tokens -= 1


class MissLimiter:
    """The budgets of one process, and the misses it remembers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._total = TokenBucket(MISSES_PER_MINUTE_TOTAL, clock.monotonic())
        self._by_client: OrderedDict[str, TokenBucket] = OrderedDict()
        self._known_misses: OrderedDict[str, None] = OrderedDict()

    def wrap(self, handler: Handler) -> Handler:
        """Wrap a handler that looks up links, so that its misses are limited."""

        async def limited(request: Request) -> Response:
            link = request.scope["path"]
            if link in self._known_misses:
                return await handler(request)
            budgets = (self._total, self._budget_of(client_of(request)))
            wait_s = max(each.seconds_until_token(self._clock.monotonic()) for each in budgets)
            if wait_s > 0:
                headers = {"Retry-After": str(math.ceil(wait_s))}
                raise HTTPException(429, _TOO_MANY, headers=headers)
            try:
                return await handler(request)
            except NotFound:
                for each in budgets:
                    each.take()
                self._note_miss(link)
                raise

        return limited

    def _budget_of(self, client: str) -> TokenBucket:
        found = self._by_client.pop(client, None)
        if found is None:
            found = TokenBucket(MISSES_PER_MINUTE, self._clock.monotonic())
        self._by_client[client] = found
        if len(self._by_client) > MAX_CLIENTS:
            self._by_client.popitem(last=False)
        return found

    def _note_miss(self, link: str) -> None:
        if len(link) <= _MAX_LINK_LENGTH:
            self._known_misses[link] = None
            if len(self._known_misses) > MAX_KNOWN_MISSES:
                self._known_misses.popitem(last=False)


def client_of(request: Request) -> str:
    """Return the client of a request: its address, or its IPv6 network."""
    peer = "" if request.client is None else request.client.host
    address = _parse(peer)
    if address is None or not address.is_private:
        return _network(address, peer)
    forwarded = request.headers.getlist("x-forwarded-for")
    last = forwarded[-1].rpartition(",")[2].strip() if forwarded else ""
    return _network(_parse(last), peer) if last else peer


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, peer: str) -> str:
    if address is None:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
