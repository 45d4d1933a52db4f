"""What a passage of a text is under: headings, and what it is in the middle of.

Headings are those of Markdown, with `#` or underlined, outside of code between fences. What a
passage can be in the middle of is a table, whose first row names its columns, or, in source code,
something that is defined at the top level.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

_LONGEST = 200

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
    """A heading, and those above it; the last of the chain is its own text."""

    start: int
    level: int
    chain: tuple[str, ...]


@dataclass(frozen=True)
class TextContainer:
    """A stretch of a text that its first line says something about."""

    start: int
    end: int
    line: str


class Outline:
    """The headings and containers of a text."""

    def __init__(self, text: str, format_: str) -> None:
        code = format_ == "code"
        # In a plain text a line that begins with `#` is one like any other.
        marked = not code and format_ != "text"
        self.headings: Sequence[Heading] = list(_headings(text)) if marked else []
        found = _definitions(text) if code else _tables(text) if marked else ()
        self._containers = list(found)

    def chain(self, place: int, since: int = 0) -> tuple[str, ...]:
        """Return the headings above a place, no further up than `since`; one that begins at the
        place is not above it.
        """
        index = bisect_left(self.headings, place, key=attrgetter("start"))
        if index < len(self.headings) and self.headings[index].start == place:
            return self.headings[index].chain[:-1]
        if index and self.headings[index - 1].start >= since:
            return self.headings[index - 1].chain
        return ()

    def above(self, place: int, since: int = 0) -> tuple[str, ...]:
        """Return the headings above a place, and the first line of what it is in the middle of."""
        chain = self.chain(place, since)
        index = bisect_left(self._containers, place, key=attrgetter("start")) - 1
        if index >= 0 and place < self._containers[index].end:
            return (*chain, self._containers[index].line)
        return chain


def heading_text(line: str) -> str:
    """Return what follows a heading's marks, without those that may be at its end as well."""
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
        above.append((level, _short(title)))
        yield Heading(start, level, tuple(name for _, name in above if name))


def _after_empty_line(text: str, place: int) -> bool:
    before = text.rfind("\n", 0, max(0, place - 1)) + 1
    return not text[before:place].strip()


def _tables(text: str) -> Iterator[TextContainer]:
    for match in _TABLE.finditer(text):
        row = match[0].partition("\n")[0].strip().strip("|").strip()
        if row and len(row) <= _LONGEST:
            yield TextContainer(match.start(), match.end(), row)


def _definitions(text: str) -> Iterator[TextContainer]:
    places = [match.start() for match in _TOP_LEVEL.finditer(text)]
    for start, end in pairwise([*places, len(text)]):
        if _DEFINES.match(text, start):
            line = text[start : start + _LONGEST + 1].partition("\n")[0].rstrip(" \t\r{")
            yield TextContainer(start, end, _short(line))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
