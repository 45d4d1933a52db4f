"""The text of a document while it is read: blocks, pages, and what could not be read.

Between blocks there is an empty line, between the rows of a table and the items of a list none.
What no database takes (NUL, halves of surrogate pairs) never gets into the text, and a document
whose text has no end is cut where it is as long as a text may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coatcheck.surfaces.ingest.stages import Problem

# About seven thousand pages.
MOST_CHARACTERS = 20_000_000

_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")
_TICKS = re.compile("`{3,}")
_LIKE_HEADING = re.compile(r"^(?=#{1,6}\s)", re.MULTILINE)
_ROW, _ITEM = "row", "item"


class Full(Exception):
    """The text is as long as a text may be."""


def clean(text: str) -> str:
    """Return a text that can be kept everywhere, of the same length."""
    return _NO_CHARACTER.sub("\ufffd", text)


def on_one_line(text: str) -> str:
    """Return a text without its line breaks and runs of blanks."""
    return _BLANKS.sub(" ", text).strip()


class Draft:
    """A document's text that grows block by block."""

    def __init__(self, most: int = MOST_CHARACTERS) -> None:
        self.title = ""
        # What the document says of itself; what is detected goes before it.
        self.language: str | None = None
        self.encoding: str | None = None
        self.problems: list[Problem] = []
        self.page_starts: list[int] = []
        self._most = most
        self._pieces: list[str] = []
        self._length = 0
        self._last: str | None = None

    @property
    def text(self) -> str:
        """Return what there is so far."""
        return "".join(self._pieces)

    @property
    def page(self) -> int | None:
        """Return the number of the page that is being read; None where there are no pages."""
        return len(self.page_starts) or None

    def begin_page(self) -> None:
        """Begin the next page (slide, sheet), also where nothing will be on it."""
        if self._length and self._length != (self.page_starts or [0])[-1]:
            self._append("\n\n")
        self._last = None
        self.page_starts.append(self._length)

    def heading(self, level: int, text: str) -> None:
        """Add a heading; level 1 is the outermost."""
        line = on_one_line(text)
        if line:
            self._block(f"{'#' * min(max(level, 1), 6)} {line}")

    def paragraph(self, text: str) -> None:
        """Add a paragraph; a line of it that would look like a heading is marked as none."""
        stripped = text.strip()
        if stripped:
            self._block(_LIKE_HEADING.sub(r"\\", stripped))

    def item(self, text: str, depth: int = 0) -> None:
        """Add an item of a list."""
        line = on_one_line(text)
        if line:
            self._block(f"{'  ' * min(depth, 8)}- {line}", _ITEM)

    def code(self, text: str) -> None:
        """Add a text whose lines and blanks matter, between two lines that say so."""
        if text.strip():
            longest = max(map(len, _TICKS.findall(text)), default=0)
            fence = "`" * max(3, longest + 1)
            self._block(f"{fence}\n{text.strip(chr(10))}\n{fence}")

    def row(self, cells: Iterable[str]) -> None:
        """Add a row of a table; one without any text is left out."""
        lines = [on_one_line(cell).replace("|", "\\|") for cell in cells]
        if any(lines):
            self._block(f"| {' | '.join(lines)} |", _ROW)

    def end_table(self) -> None:
        """Let the next row be of another table."""
        self._last = None

    def own_text(self, text: str) -> None:
        """Take a text as it is."""
        self._append(clean(text))

    def problem(self, reason: str) -> None:
        """Note something of the page (or the document) that could not be read."""
        self.problems.append(Problem(page=self.page, reason=reason))

    def _block(self, text: str, kind: str | None = None) -> None:
        at_start = not self._length or self._length == (self.page_starts or [0])[-1]
        if not at_start:
            self._append("\n" if kind and kind == self._last else "\n\n")
        self._append(clean(text))
        self._last = kind

    def _append(self, text: str) -> None:
        room = self._most - self._length
        self._pieces.append(text[:room])
        self._length += min(len(text), room)
        if len(text) > room:
            self.problem(f"only the first {self._most:,} characters were read")
            raise Full
