"""An incremental parser for server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One message of a stream."""

    event: str
    data: str
    id: str | None


class EventStreamParser:
    """Parses a stream in chunks of any size. An incomplete message at the end is dropped."""

    def __init__(self) -> None:
        self.retry_ms: int | None = None
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the messages that this chunk completes."""
        for line in self._split_lines(chunk):
            if line:
                self._read_field(line.decode("utf-8", "replace"))
            elif self._data:
                yield ServerSentEvent(self._event or "message", "\n".join(self._data), self._id)
                self._event, self._data = "", []
            else:
                self._event = ""

    def _split_lines(self, chunk: bytes) -> list[bytes]:
        text = self._rest + chunk
        # A trailing carriage return may be the first half of a CRLF.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._rest = rest + held
        return lines

    def _read_field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name.removeprefix("\ufeff"):
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdecimal():
                self.retry_ms = int(value)
