"""Slow and silent clients: how long a connection may owe us the rest of a request.

A client that connects and says nothing, sends its headers byte by byte, or stops in the middle of a
body holds a connection and its buffers for nothing. So each connection notes when it was last heard
of, one task looks over all of them now and then, and those that owe us something and have been
silent for too long are closed. Headers have a limit in time as well. A client that waits for *us*,
in a long poll or a stream, owes nothing and is never closed here.

There may be only so many connections: one more would take a file descriptor from a reserve that the
store and the blobs need. It is told 503 and closed; those that are open go on.

The other way round, a client that is refused in the middle of its body (413) is still sending. If
the connection were closed at once, the kernel would answer what is yet to come with a reset, and
with it the refusal would be lost on its way. So what it sends is thrown away for a moment first.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

from coatcheck.http.protocol.strict import StrictProtocol

# Silence in the middle of a request, and the time that a request's headers may take in all.
PATIENCE_S = 20.0
LOOK_EVERY_S = 2.0
# How long, and how much, somebody who was refused may go on sending.
LINGER_S = 2.0
LINGER_BYTES = 32 * 1024 * 1024


class TimeoutProtocol(StrictProtocol):
    """A connection that knows when it was last heard of."""

    def __init__(self, *args: Any, most_connections: int = sys.maxsize, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most_connections = most_connections

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request; refuse one connection more than there may be."""
        super().connection_made(_Lingering(transport, self._is_still_sending))  # type: ignore[arg-type]  # it is one, by all it does
        self.last_heard = self.head_since = self.loop.time()
        self._in_head = False
        if len(self.connections) > self._most_connections:
            self.refuse_connection()

    def data_received(self, data: bytes) -> None:
        """Take in what came, unless nobody wants it any more."""
        if cast("_Lingering", self.transport).throws_away(data):
            return
        self.last_heard = self.loop.time()
        if self._waits_for_head() and not self._in_head:
            self.head_since = self.last_heard
            self._in_head = True
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait for a body."""
        self._in_head = False
        super().on_headers_complete()

    def silent_for(self, now: float) -> float:
        """Return how long we have been waiting for this client in vain; 0 where it waits for us."""
        if self.timeout_keep_alive_task is not None:
            return 0.0  # idle between two requests: that has a timer of its own
        if self._waits_for_head():
            return now - self.head_since
        return now - self.last_heard if self.cycle.more_body else 0.0

    def _is_still_sending(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and cycle.more_body

    def _waits_for_head(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is None or cycle.response_complete


class _Lingering:
    """A transport that, closed while the other side is still sending, says goodbye first."""

    def __init__(self, transport: Any, is_still_sending: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_still_sending = is_still_sending
        self._left: int | None = None  # bytes that may still be thrown away

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._left is not None or self._transport.is_closing()

    def close(self) -> None:
        if self._left is not None or self._transport.is_closing():
            return
        if not self._is_still_sending() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._left = LINGER_BYTES
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)

    def throws_away(self, data: bytes) -> bool:
        """Tell whether what came is for nobody."""
        if self._left is None:
            return False
        self._left -= len(data)
        if self._left <= 0:
            self._transport.close()
        return True


async def close_silent(connections: Iterable[Any], patience_s: float = PATIENCE_S) -> None:
    """Close those that owe us something, for as long as the server runs."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(LOOK_EVERY_S, patience_s / 2))
        now = loop.time()
        for connection in list(connections):
            if connection.silent_for(now) > patience_s:
                connection.transport.close()
