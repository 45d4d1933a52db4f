"""The context of a passage: the headings above it, and the table or definition around it.

Headings are Markdown headings, with `#` or underlined, outside of fenced code. A container is a
table, whose first row names its columns, or, in source code, a top-level definition.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

_MAX_LENGTH = 200

_HEADING = re.compile(
    r"^ {0,3}(?:(?P<fence>`{3,}|~{3,})"
    r"|(?P<marks>#{1,6})[ \t]+(?P<title>[^\n]*)"
    r"|(?P<over>[^\s#>|`~*+-][^\n]*)\n {0,3}(?P<under>=+|-{2,})[ \t]*\r?$)",
    re.MULTILINE,
)
_TABLE = re.compile(r"^\|[^\n]*(?:\n\|[^\n]*)+", re.MULTILINE)
_TOP_LEVEL = re.compile(r"^[^\s{}()\[\]]", re.MULTILINE)
_DEFINES = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|sealed"
    r"|partial|pub|unsafe|data)[ \t]++){0,8}+"
    r"(?:class|def|func|fn|function|impl|interface|struct|trait|module|namespace|enum|object)\b"
)


@dataclass(frozen=True)
class Heading:
    """A heading and those above it; the last entry of the chain is its own text."""

    start: int
    level: int
    chain: tuple[str, ...]


@dataclass(frozen=True)
class TextContainer:
    """A table or a definition, with its first line."""

    start: int
    end: int
    line: str


class Outline:
    """The headings and containers of a text."""

    def __init__(self, text: str, format_: str) -> None:
        code = format_ == "code"
        # In a plain text, a line that begins with `#` is not a heading.
        is_markup = not code and format_ != "text"
        self.headings: Sequence[Heading] = list(_headings(text)) if is_markup else []
        found = _definitions(text) if code else _tables(text) if is_markup else ()
        self._containers = list(found)

    def chain(self, offset: int, first: int = 0) -> tuple[str, ...]:
        """Return the headings above an offset, none before `first`.

        A heading that begins at the offset is not above it.
        """
        index = bisect_left(self.headings, offset, key=attrgetter("start"))
        if index < len(self.headings) and self.headings[index].start == offset:
            return self.headings[index].chain[:-1]
        if index and self.headings[index - 1].start >= first:
            return self.headings[index - 1].chain
        return ()

    def above(self, offset: int, first: int = 0) -> tuple[str, ...]:
        """Return the headings above an offset, and the first line of the container around it."""
        chain = self.chain(offset, first)
        index = bisect_left(self._containers, offset, key=attrgetter("start")) - 1
        if index >= 0 and offset < self._containers[index].end:
            return (*chain, self._containers[index].line)
        return chain


def heading_text(line: str) -> str:
    """Return a heading's text without its closing marks."""
    line = line.strip()
    shorter = line.rstrip("#")
    return shorter.rstrip() if not shorter or shorter[-1].isspace() else line


def _headings(text: str) -> Iterator[Heading]:
    above: list[tuple[int, str]] = []
    fence = ""
    for match in _HEADING.finditer(text):
        if match["fence"]:
            if not fence:
                fence = match["fence"]
            elif match["fence"].startswith(fence):
                fence = ""
            continue
        if fence:
            continue
        if match["marks"]:
            level, title = len(match["marks"]), heading_text(match["title"])
            start = match.start("marks")
        else:
            if not _after_empty_line(text, match.start()):
                continue
            level, title = (1 if match["under"][0] == "=" else 2), match["over"].strip()
            start = match.start("over")
        while above and above[-1][0] >= level:
            above.pop()
        above.append((level, _shorten(title)))
        yield Heading(start, level, tuple(name for _, name in above if name))


def _after_empty_line(text: str, offset: int) -> bool:
    before = text.rfind("\n", 0, max(0, offset - 1)) + 1
    return not text[before:offset].strip()


def _tables(text: str) -> Iterator[TextContainer]:
    for match in _TABLE.finditer(text):
        row = match[0].partition("\n")[0].strip().strip("|").strip()
        if row and len(row) <= _MAX_LENGTH:
            yield TextContainer(match.start(), match.end(), row)


def _definitions(text: str) -> Iterator[TextContainer]:
    starts = [match.start() for match in _TOP_LEVEL.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        if _DEFINES.match(text, start):
            line = text[start : start + _MAX_LENGTH + 1].partition("\n")[0].rstrip(" \t\r{")
            yield TextContainer(start, end, _shorten(line))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
