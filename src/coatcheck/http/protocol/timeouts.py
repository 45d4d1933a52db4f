"""Timeouts of slow and silent clients, and the connection limit.

A client that connects and sends nothing, sends its headers byte by byte, or stalls in the middle of
a body holds a connection and its buffers for nothing. Each connection records when it last received
data. One task checks all of them periodically and closes those that have been silent for too long
in the middle of a request. Headers have a total time limit as well. A client that waits for *us*,
in a long poll or a stream, is never closed here.

The number of connections is limited, because the store and the blobs need a reserve of file
descriptors. A connection over the limit gets 503 and is closed; open connections continue.

A client that is rejected in the middle of its body (413) is still sending. If the connection were
closed at once, the kernel would reset it, and the client could lose the error response. So the
connection lingers for a moment and discards what arrives.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

from coatcheck.http.protocol.strict import StrictProtocol

# The longest silence within a request, and the longest time for its headers in total.
CLIENT_TIMEOUT_S = 20.0
CHECK_INTERVAL_S = 2.0
# How long, and how much, a rejected client may continue to send.
LINGER_S = 2.0
LINGER_BYTES = 32 * 1024 * 1024


class TimeoutProtocol(StrictProtocol):
    """A connection that records when it last received data."""

    def __init__(self, *args: Any, max_connections: int = sys.maxsize, **options: Any) -> None:
        super().__init__(*args, **options)
        self._max_connections = max_connections

    def connection_made(self, transport: Any) -> None:
        """Wait for a request; reject the connection if there are too many."""
        super().connection_made(_LingeringTransport(transport, self._is_still_sending))  # type: ignore[arg-type]  # a proxy of one
        self.last_received = self.head_since = self.loop.time()
        self._in_head = False
        if len(self.connections) > self._max_connections:
            self.reject_connection()

    def data_received(self, data: bytes) -> None:
        """Parse received data, unless the connection is lingering."""
        if cast("_LingeringTransport", self.transport).discards(data):
            return
        self.last_received = self.loop.time()
        if self._waits_for_head() and not self._in_head:
            self.head_since = self.last_received
            self._in_head = True
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Record that the headers are complete."""
        self._in_head = False
        super().on_headers_complete()

    def silent_for(self, now: float) -> float:
        """Return how long the client has been silent; 0 if it waits for a response."""
        if self.timeout_keep_alive_task is not None:
            return 0.0  # idle between two requests: keep-alive has its own timer
        if self._waits_for_head():
            return now - self.head_since
        return now - self.last_received if self.cycle.more_body else 0.0

    def _is_still_sending(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and cycle.more_body

    def _waits_for_head(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, despite its type
        return cycle is None or cycle.response_complete


class _LingeringTransport:
    """A transport that lingers when it is closed while the client is still sending."""

    def __init__(self, transport: Any, is_still_sending: Callable[[], bool]) -> None:
        self._transport = transport
        self._is_still_sending = is_still_sending
        self._left: int | None = None  # bytes that may still be discarded

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

    def discards(self, data: bytes) -> bool:
        """Count received data as discarded; return False if the connection is not lingering."""
        if self._left is None:
            return False
        self._left -= len(data)
        if self._left <= 0:
            self._transport.close()
        return True


async def close_silent(connections: Iterable[Any], timeout_s: float = CLIENT_TIMEOUT_S) -> None:
    """Close connections of silent clients, for as long as the server runs."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(CHECK_INTERVAL_S, timeout_s / 2))
        now = loop.time()
        for connection in list(connections):
            if connection.silent_for(now) > timeout_s:
                connection.transport.close()
