"""The interface between the relay and the service that answers a call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from coatcheck.relay.call import ResponseHead
from coatcheck.relay.headers import Pairs


class UpstreamUnreachable(Exception):
    """The upstream could not be reached: nothing was sent."""


class CallBroken(Exception):
    """The call broke after something was sent: the upstream may or may not have handled it."""


class UpstreamRequest(NamedTuple):
    """A request as it is sent, with credentials and the relay's own headers."""

    method: str
    path: str  # with the query, as it was written
    headers: Pairs  # without Host and framing, which the upstream adds
    size: int  # of the body


class UpstreamResponse(NamedTuple):
    """A response in progress: its head has arrived, its chunks follow."""

    head: ResponseHead  # as received, hop-by-hop headers included
    chunks: AsyncIterator[bytes]  # raises CallBroken if the response breaks


class Upstream(Protocol):
    """Makes calls. Leaving the context of a call always closes what the call opened."""

    def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Make a call; entering raises UpstreamUnreachable or CallBroken."""
        ...


async def one_chunk(content: bytes) -> AsyncIterator[bytes]:
    """Yield a body that is in memory, for `Upstream.call`."""
    yield content
