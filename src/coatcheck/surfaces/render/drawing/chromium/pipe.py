"""Chromium's DevTools protocol, as much of it as is needed: a call goes out, its answer comes back.

Messages are JSON, each followed by a NUL. Answers carry the number of their call; whatever else the
browser tells (events, answers that nobody waits for any more) is passed over. Nothing here waits
beyond a deadline, neither to read nor to write: a browser may stop doing either.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import IO, Any

_CHUNK = 1 << 16
# Pictures that are larger are of no use to anybody.
_LARGEST_MESSAGE = 64 * 1024 * 1024


class BrowserGone(Exception):
    """The browser has closed the pipe, has lost its page, or does not speak the protocol."""


class TooLate(Exception):
    """The deadline came before the answer."""


class Pipe:
    """The two ends that we hold. One call at a time."""

    def __init__(self, to_browser: IO[bytes], from_browser: IO[bytes]) -> None:
        self._out, self._in = to_browser, from_browser
        os.set_blocking(self._out.fileno(), False)
        os.set_blocking(self._in.fileno(), False)
        self._read = bytearray()
        self._looked = 0  # so far there is no NUL in what was read
        self._calls = 0

    def call(
        self, method: str, deadline: float, session: str | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Return what the browser answers; the deadline is by the monotonic clock."""
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            self._write(json.dumps(message).encode() + b"\0", deadline)
            while (answer := self._next(deadline)).get("id") != self._calls:
                if answer.get("method") == "Inspector.targetCrashed":
                    raise BrowserGone("the page has crashed")
            if "error" in answer:
                raise BrowserGone(f"{method}: {answer['error']['message']}")
            result: dict[str, Any] = answer["result"]
        except (OSError, ValueError, KeyError) as error:
            raise BrowserGone(f"the browser does not answer: {error}") from error
        return result

    def close(self) -> None:
        """Close both ends: Chromium ends by itself then."""
        for end in (self._out, self._in):
            end.close()

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self._out, select.POLLOUT, deadline)
            rest = rest[os.write(self._out.fileno(), rest[:_CHUNK]) :]

    def _next(self, deadline: float) -> dict[str, Any]:
        while (end := self._read.find(b"\0", self._looked)) < 0:
            self._looked = len(self._read)
            _wait(self._in, select.POLLIN, deadline)
            data = os.read(self._in.fileno(), _CHUNK)
            if not data or self._looked > _LARGEST_MESSAGE:
                raise BrowserGone("the browser has closed the pipe, or does not come to an end")
            self._read += data
        message: dict[str, Any] = json.loads(self._read[:end])
        del self._read[: end + 1]
        self._looked = 0
        return message


def _wait(end: IO[bytes], event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(end, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TooLate
