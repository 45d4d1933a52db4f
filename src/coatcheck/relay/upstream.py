"""Whoever answers a call in the end, as the relay sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from coatcheck.relay.call import ResponseHead
from coatcheck.relay.headers import Pairs


class TargetUnreachable(Exception):
    """Nobody answers at the target: nothing was sent."""


class CallBroken(Exception):
    """The call broke off after something was sent: what the target has made of it is unknown."""


class UpstreamRequest(NamedTuple):
    """A call as it is made: with its credentials, and the headers of ours."""

    method: str
    path: str  # with the query, as it was written
    headers: Pairs  # without Host and framing, which the upstream adds
    size: int  # of the body


class UpstreamResponse(NamedTuple):
    """An answer as it comes: its head is there, its chunks follow."""

    head: ResponseHead  # as the upstream gave it, hop-by-hop headers included
    chunks: AsyncIterator[bytes]  # raises CallBroken where it breaks off


class Upstream(Protocol):
    """Makes calls. What it opened is closed when its context is left, however that happens."""

    def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Make a call, and give its answer; raises TargetUnreachable, CallBroken on entering."""
        ...
