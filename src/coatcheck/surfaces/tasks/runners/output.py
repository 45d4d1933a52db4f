"""The output of a command: kept up to a cap, told as it comes, drained to its end."""

from __future__ import annotations

import asyncio
import codecs

from coatcheck.surfaces.tasks.runners.runner import OnOutput

# Room for the line that says that it was cut.
_MARK_BYTES = 64


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


class CapturedOutput:
    """One stream's bytes up to a cap."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._kept = bytearray()
        self.truncated = False  # whether more came than is kept

    def add(self, data: bytes) -> bytes:
        """Take what came; return the part of it that is kept."""
        room = self._cap - len(self._kept)
        self.truncated = self.truncated or len(data) > room
        self._kept += data[:room]
        return data[:room]

    def text(self) -> str:
        """Return what was kept, as text; when it was cut, with a last line that says so."""
        if not self.truncated:
            return _clean(bytes(self._kept).decode("utf-8", "replace"))
        kept = bytes(self._kept[: self._cap - _MARK_BYTES])
        # Not the last character, if the cut went through it.
        text = _clean(_decoder().decode(kept))
        return f"{text}\n[cut off: more than {self._cap} bytes]\n"


class OutputRelay:
    """Tells somebody the text of a stream without ever making the stream wait.

    What comes while they are busy is told in one piece afterwards. What waits is bounded by the
    cap of the stream.
    """

    def __init__(self, on_output: OnOutput | None) -> None:
        self._on_output = on_output
        self._decoder = _decoder()
        self._waiting: list[str] = []
        self._news = asyncio.Event()
        self._ended = False

    def add(self, data: bytes) -> None:
        """Take what came."""
        self._put(self._decoder.decode(data))

    def end(self) -> None:
        """Say that nothing more will come."""
        self._put(self._decoder.decode(b"", final=True))
        self._ended = True
        self._news.set()

    def _put(self, text: str) -> None:
        if text:
            self._waiting.append(_clean(text))
            self._news.set()

    async def run(self) -> None:
        """Tell until the end; raises whatever the listener raises."""
        while not self._ended or self._waiting:
            await self._news.wait()
            self._news.clear()
            text, self._waiting = "".join(self._waiting), []
            if text and self._on_output is not None:
                await self._on_output(text)


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd")
