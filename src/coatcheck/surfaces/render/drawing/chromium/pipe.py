"""The subset of Chromium's DevTools protocol that we need: calls and their responses, over a pipe.

Messages are JSON, each followed by a NUL. A response carries the number of its call. Anything else
the browser sends (events, late responses) is ignored. No read or write blocks beyond the deadline:
a browser may stop doing either.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import IO, Any

_CHUNK = 1 << 16
# Larger pictures are of no use.
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class BrowserGone(Exception):
    """The browser closed the pipe, lost its page, or does not speak the protocol."""


class DeadlineExceeded(Exception):
    """The deadline passed before the response."""


class Pipe:
    """Our ends of the pipe. One call at a time."""

    def __init__(self, to_browser: IO[bytes], from_browser: IO[bytes]) -> None:
        self._out, self._in = to_browser, from_browser
        os.set_blocking(self._out.fileno(), False)
        os.set_blocking(self._in.fileno(), False)
        self._read = bytearray()
        self._searched = 0  # this many bytes were searched for a NUL
        self._calls = 0

    def call(
        self, method: str, deadline: float, session: str | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Call a method and return its result; the deadline is on the monotonic clock."""
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            self._write(json.dumps(message).encode() + b"\0", deadline)
            while (response := self._next(deadline)).get("id") != self._calls:
                if response.get("method") == "Inspector.targetCrashed":
                    raise BrowserGone("the page crashed")
            if "error" in response:
                raise BrowserGone(f"{method}: {response['error']['message']}")
            result: dict[str, Any] = response["result"]
        except (OSError, ValueError, KeyError) as error:
            raise BrowserGone(f"the browser does not respond: {error}") from error
        return result

    def close(self) -> None:
        """Close both ends, at which Chromium exits."""
        for end in (self._out, self._in):
            end.close()

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self._out, select.POLLOUT, deadline)
            rest = rest[os.write(self._out.fileno(), rest[:_CHUNK]) :]

    def _next(self, deadline: float) -> dict[str, Any]:
        while (end := self._read.find(b"\0", self._searched)) < 0:
            self._searched = len(self._read)
            _wait(self._in, select.POLLIN, deadline)
            data = os.read(self._in.fileno(), _CHUNK)
            if not data or self._searched > _MAX_MESSAGE_BYTES:
                raise BrowserGone("the browser closed the pipe, or its message is too large")
            self._read += data
        message: dict[str, Any] = json.loads(self._read[:end])
        del self._read[: end + 1]
        self._searched = 0
        return message


def _wait(end: IO[bytes], event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(end, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise DeadlineExceeded
