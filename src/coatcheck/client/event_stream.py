"""Reading server-sent events from bytes, however they are cut (WHATWG HTML, section 9.2)."""

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
    """The state between two pieces of a stream. A message that never ends is never told."""

    def __init__(self) -> None:
        self.retry_ms: int | None = None
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Take in a piece and yield the messages that are complete with it."""
        for line in self._lines(piece):
            if line:
                self._take(line.decode("utf-8", "replace"))
            elif self._data:
                yield ServerSentEvent(self._event or "message", "\n".join(self._data), self._id)
                self._event, self._data = "", []
            else:
                self._event = ""

    def _lines(self, piece: bytes) -> list[bytes]:
        text = self._rest + piece
        # A carriage return at the end may be half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._rest = rest + held
        return lines

    def _take(self, line: str) -> None:
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
