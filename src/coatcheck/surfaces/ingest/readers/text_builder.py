"""The text of a document while it is read: blocks, pages, and parts that could not be read.

Blocks are separated by an empty line; table rows and list items are not. Characters that databases
reject (NUL, lone surrogates) are replaced. A text that exceeds the limit is truncated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coatcheck.surfaces.ingest.document import Problem

# About seven thousand pages.
MAX_CHARACTERS = 20_000_000

_INVALID = re.compile("[\0\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")
_TICKS = re.compile("`{3,}")
_HEADING_MARK = re.compile(r"^(?=#{1,6}\s)", re.MULTILINE)
_ROW, _ITEM = "row", "item"


class TextLimitReached(Exception):
    """The text has reached its maximum length."""


def replace_invalid(text: str) -> str:
    """Replace characters that databases reject; the length stays the same."""
    return _INVALID.sub("\ufffd", text)


def collapse_whitespace(text: str) -> str:
    """Collapse line breaks and runs of whitespace into single spaces."""
    return _BLANKS.sub(" ", text).strip()


class TextBuilder:
    """Builds a document's text block by block."""

    def __init__(self, limit: int = MAX_CHARACTERS) -> None:
        self.title = ""
        # As declared by the document; the detected language takes precedence.
        self.language: str | None = None
        self.encoding: str | None = None
        self.problems: list[Problem] = []
        self.page_starts: list[int] = []
        self._limit = limit
        self._pieces: list[str] = []
        self._length = 0
        self._last: str | None = None

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._pieces)

    @property
    def page(self) -> int | None:
        """Return the number of the current page; None if there are no pages."""
        return len(self.page_starts) or None

    def begin_page(self) -> None:
        """Begin the next page (slide, sheet), even if it stays empty."""
        if self._length and self._length != (self.page_starts or [0])[-1]:
            self._append("\n\n")
        self._last = None
        self.page_starts.append(self._length)

    def heading(self, level: int, text: str) -> None:
        """Add a heading; level 1 is the outermost."""
        line = collapse_whitespace(text)
        if line:
            self._block(f"{'#' * min(max(level, 1), 6)} {line}")

    def paragraph(self, text: str) -> None:
        """Add a paragraph; escape lines that would look like headings."""
        stripped = text.strip()
        if stripped:
            self._block(_HEADING_MARK.sub(r"\\", stripped))

    def item(self, text: str, depth: int = 0) -> None:
        """Add a list item."""
        line = collapse_whitespace(text)
        if line:
            self._block(f"{'  ' * min(depth, 8)}- {line}", _ITEM)

    def code(self, text: str) -> None:
        """Add preformatted text as a fenced block."""
        if text.strip():
            longest = max(map(len, _TICKS.findall(text)), default=0)
            fence = "`" * max(3, longest + 1)
            self._block(f"{fence}\n{text.strip(chr(10))}\n{fence}")

    def row(self, cells: Iterable[str]) -> None:
        """Add a table row, unless all its cells are empty."""
        lines = [collapse_whitespace(cell).replace("|", "\\|") for cell in cells]
        if any(lines):
            self._block(f"| {' | '.join(lines)} |", _ROW)

    def end_table(self) -> None:
        """End the current table; the next row begins another one."""
        self._last = None

    def append_verbatim(self, text: str) -> None:
        """Append a text unchanged."""
        self._append(replace_invalid(text))

    def problem(self, reason: str) -> None:
        """Record a part of the current page (or of the document) that could not be read."""
        self.problems.append(Problem(page=self.page, reason=reason))

    def _block(self, text: str, kind: str | None = None) -> None:
        at_start = not self._length or self._length == (self.page_starts or [0])[-1]
        if not at_start:
            self._append("\n" if kind and kind == self._last else "\n\n")
        self._append(replace_invalid(text))
        self._last = kind

    def _append(self, text: str) -> None:
        room = self._limit - self._length
        self._pieces.append(text[:room])
        self._length += min(len(text), room)
        if len(text) > room:
            self.problem(f"only the first {self._limit:,} characters were read")
            raise TextLimitReached
