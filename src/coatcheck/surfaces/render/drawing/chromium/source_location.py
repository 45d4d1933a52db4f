"""Where in a source a mistake is, from what Mermaid says about the text that it has read.

Mermaid takes things out of a source before it is parsed: its front matter, directives, comments,
and the blanks at both ends. Its lines and columns are those of what is left. So the same is taken
out here, and it is kept where each character of the rest was.
"""

from __future__ import annotations

import re

from coatcheck.surfaces.render.drawing.chromium.page import MermaidError
from coatcheck.surfaces.render.drawing.errors import (
    DrawingError,
    mistake_at,
    mistake_at_offset,
)

_FRONT_MATTER = re.compile(r"\A-{3}\s*[\n\r](.*?)[\n\r]-{3}\s*[\n\r]+", re.DOTALL)
_DIRECTIVE = re.compile(r"%%\{.*?\}%%", re.DOTALL)
_COMMENT = re.compile(r"^\s*%%(?!\{)[^\n]+\n?", re.MULTILINE)
_CARRIAGE_RETURN = re.compile(r"\r(?=\n)")

# `Parse error on line 3:`, what was read around it, an arrow that points into that, and the words.
_SAID = re.compile(
    r"\A(?:Parse|Lexical) error on line (?P<line>\d+)[.:](?P<first>[^\n]*)\n"
    r"(?P<around>[^\n]*)\n(?P<before>-*)\^\n?"
)
_EXPECTED = re.compile(r"Expecting (?:'[^']*', ){4,}got (.*)")
# What Mermaid's parsers call the end of the text.
_END = re.compile(r"(?<=got )'1'|(?<=\A)'1'")
_PLACE_IN_WORDS = re.compile(r" at offset: \d+, skipped \d+ characters\.| \(\d+:\d+\)\Z")
_NAMED_TEXT = re.compile(r":\s*(\S.*)\Z", re.DOTALL)
_PICTURE = re.compile(r"\bimg\s*:", re.IGNORECASE)


def mistake_in(source: str, said: MermaidError) -> DrawingError:
    """Return what is wrong with a source, in its own lines and columns."""
    if said.kind == "EncodingError":
        found = _PICTURE.search(source)
        words = "pictures are not fetched here; write it out as data:image/png;base64,…"
        return mistake_at_offset(source, found.start() if found else 0, words)
    if said.kind == "YAMLException":
        opened = source[: source.find("---")].count("\n") + 1
        words = _PLACE_IN_WORDS.sub("", said.reason.split("\n", maxsplit=1)[0])
        line, column = said.line or 0, said.column or 0  # counted from 0
        return mistake_at(source, opened + line + 1, column + 1, words)
    read, places = as_read(source)
    if said.kind == "UnknownDiagramError" or not read:
        return mistake_at_offset(source, places[0] if places else 0, "this is no Mermaid diagram")
    words = _in_a_line(said.reason)
    offset = _offset(read, said)
    if offset is None:
        return DrawingError(f"the diagram cannot be drawn: {words}")
    return mistake_at_offset(source, (*places, len(source))[offset], words)


def as_read(source: str) -> tuple[str, list[int]]:
    """Return what Mermaid parses of a source, and where each character of it was."""
    places = list(range(len(source)))
    text = source
    for pattern in (_CARRIAGE_RETURN, _FRONT_MATTER, _DIRECTIVE, _COMMENT):
        kept = [True] * len(text)
        for found in pattern.finditer(text):
            kept[found.start() : found.end()] = [False] * (found.end() - found.start())
        places = [place for place, keep in zip(places, kept, strict=True) if keep]
        text = "".join(source[place] for place in places)
    first = len(text) - len(text.lstrip())
    return text[first:], places[first:]


def _offset(read: str, said: MermaidError) -> int | None:
    """Return where in what was read the mistake is; None where that is not told."""
    if said.line is not None:
        start, text = _line(read, said.line)
        if said.behind is not None:
            return start + min(_characters(text, said.behind), len(text))
        column = len(text) if said.column is None else _characters(text, said.column - 1)
        return start + min(column, len(text))
    pointed = _SAID.match(said.reason)
    if pointed:
        start, text = _line(read, int(pointed["line"]))
        ahead = _from(pointed["around"], len(pointed["before"])).removesuffix("...")
        return start + max(text.find(ahead[: len(text)]), 0)
    named = _NAMED_TEXT.search(said.reason)
    for text in (said.token, named[1] if named else ""):
        if text and text in read:
            return read.index(text)
    return None


def _line(read: str, number: int) -> tuple[int, str]:
    """Return where a line begins, and the line; the last where there are not so many."""
    lines = read.split("\n")
    index = min(max(number, 1), len(lines)) - 1
    return sum(len(line) + 1 for line in lines[:index]), lines[index]


def _characters(text: str, units: int) -> int:
    """Return how many characters so many of a browser's are: it counts some of them twice."""
    return len(text.encode("utf-16-le")[: 2 * max(units, 0)].decode("utf-16-le", errors="ignore"))


def _from(text: str, units: int) -> str:
    return text[_characters(text, units) :]


def _in_a_line(reason: str) -> str:
    pointed = _SAID.match(reason)
    words = f"{pointed['first']} {reason[pointed.end() :]}" if pointed else reason
    words = _PLACE_IN_WORDS.sub("", " ".join(words.split()))
    words = _EXPECTED.sub(r"\1 cannot stand here", words)
    return _END.sub("the end", words) or "it cannot be read"
