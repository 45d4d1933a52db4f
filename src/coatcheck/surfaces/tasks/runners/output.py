"""The output of a command: captured up to a cap, relayed as it arrives, drained to its end."""

from __future__ import annotations

import asyncio
import codecs

from coatcheck.surfaces.tasks.runners.runner import OnOutput

# Reserved for the line that reports the truncation.
_MARKER_BYTES = 64


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


class CapturedOutput:
    """One stream's bytes up to a cap."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._captured = bytearray()
        self.truncated = False  # whether more arrived than was captured

    def add(self, data: bytes) -> bytes:
        """Add data; return the part of it that is captured."""
        room = self._cap - len(self._captured)
        self.truncated = self.truncated or len(data) > room
        self._captured += data[:room]
        return data[:room]

    def text(self) -> str:
        """Return the captured text; if it was truncated, with a last line that says so."""
        if not self.truncated:
            return _clean(bytes(self._captured).decode("utf-8", "replace"))
        captured = bytes(self._captured[: self._cap - _MARKER_BYTES])
        # Drop the last character if it is incomplete.
        text = _clean(_decoder().decode(captured))
        return f"{text}\n[cut off: more than {self._cap} bytes]\n"


class OutputRelay:
    """Relays the text of a stream to a listener without blocking the stream.

    Text that arrives while the listener is busy is relayed in one piece afterwards. The cap of the
    stream bounds the pending text.
    """

    def __init__(self, on_output: OnOutput | None) -> None:
        self._on_output = on_output
        self._decoder = _decoder()
        self._pending: list[str] = []
        self._changed = asyncio.Event()
        self._ended = False

    def add(self, data: bytes) -> None:
        """Add data."""
        self._put(self._decoder.decode(data))

    def end(self) -> None:
        """Mark the end of the stream."""
        self._put(self._decoder.decode(b"", final=True))
        self._ended = True
        self._changed.set()

    def _put(self, text: str) -> None:
        if text:
            self._pending.append(_clean(text))
            self._changed.set()

    async def run(self) -> None:
        """Relay until the end; raise whatever the listener raises."""
        while not self._ended or self._pending:
            await self._changed.wait()
            self._changed.clear()
            text, self._pending = "".join(self._pending), []
            if text and self._on_output is not None:
                await self._on_output(text)


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd")
