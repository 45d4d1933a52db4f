"""A rate limit on guessing links that need no key.

A capability link is its own permission, so guessing is the attack. A lookup that finds nothing (a
miss) costs one token of its client's budget and one of the global budget; both refill with time.
While either is empty a lookup is refused with 429, whether or not there is such a link: an answer
that depended on it would go on telling.

- A miss of a link that was missed lately is free. A page with a dead picture, loaded by many, uses
  up no budget; a guesser does not ask twice.
- A client is an address; of IPv6 a /64. Behind a reverse proxy all have the proxy's, so where the
  peer is loopback or private, the last entry of `X-Forwarded-For` counts, which the proxy itself
  wrote. Where there is no proxy it can be forged: the global budget holds all the same.
- Budgets are kept by each process for itself, for a bounded number of clients.
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
MISSES_PER_MINUTE_IN_ALL = 600
MOST_CLIENTS = 10_000
MOST_KNOWN_MISSES = 10_000
_LONGEST_KNOWN = 100
_WORDS = "too many links that lead nowhere were asked for: come back later"


class TokenBucket:
    """So many tokens a minute, and no more than that at once."""

    __slots__ = ("_per_minute", "_since", "_tokens")

    def __init__(self, per_minute: int, now: float) -> None:
        self._per_minute = per_minute
        self._tokens = float(per_minute)
        self._since = now

    def seconds_until_token(self, now: float) -> float:
        """Return how long it takes until there is a token; 0 if there is one."""
        refilled = self._tokens + (now - self._since) * self._per_minute / 60
        self._tokens, self._since = min(float(self._per_minute), refilled), now
        return max(0.0, (1 - self._tokens) * 60 / self._per_minute)

    def take(self) -> None:
        """Take a token; several requests at once may take it below zero."""
        self._tokens -= 1


class MissLimiter:
    """The budgets of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_all = TokenBucket(MISSES_PER_MINUTE_IN_ALL, clock.monotonic())
        self._by_client: OrderedDict[str, TokenBucket] = OrderedDict()
        self._known_misses: OrderedDict[str, None] = OrderedDict()

    def around(self, handler: Handler) -> Handler:
        """Return a handler that looks links up within the budgets."""

        async def limited(request: Request) -> Response:
            link = request.scope["path"]
            if link in self._known_misses:
                return await handler(request)
            budgets = (self._in_all, self._of(client_of(request)))
            wait_s = max(each.seconds_until_token(self._clock.monotonic()) for each in budgets)
            if wait_s > 0:
                headers = {"Retry-After": str(math.ceil(wait_s))}
                raise HTTPException(429, _WORDS, headers=headers)
            try:
                return await handler(request)
            except NotFound:
                for each in budgets:
                    each.take()
                self._note_miss(link)
                raise

        return limited

    def _of(self, client: str) -> TokenBucket:
        found = self._by_client.pop(client, None)
        if found is None:
            found = TokenBucket(MISSES_PER_MINUTE, self._clock.monotonic())
        self._by_client[client] = found
        if len(self._by_client) > MOST_CLIENTS:
            self._by_client.popitem(last=False)
        return found

    def _note_miss(self, link: str) -> None:
        if len(link) <= _LONGEST_KNOWN:
            self._known_misses[link] = None
            if len(self._known_misses) > MOST_KNOWN_MISSES:
                self._known_misses.popitem(last=False)


def client_of(request: Request) -> str:
    """Return the network that a request comes from, as far as can be told."""
    peer = "" if request.client is None else request.client.host
    address = _read(peer)
    if address is None or not address.is_private:
        return _network(address, peer)
    forwarded = request.headers.getlist("x-forwarded-for")
    last = forwarded[-1].rpartition(",")[2].strip() if forwarded else ""
    return _network(_read(last), peer) if last else peer


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, peer: str) -> str:
    if address is None:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


def _read(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
