"""Locate Mermaid's errors in the original source.

Mermaid removes parts of a source before parsing it: front matter, directives, comments, and
whitespace at both ends. Its lines and columns refer to the rest. The same parts are removed here,
with the original offset of each remaining character recorded.
"""

from __future__ import annotations

import re

from coatcheck.surfaces.render.drawing.chromium.page import MermaidError
from coatcheck.surfaces.render.drawing.errors import (
    DrawingError,
    error_at,
    error_at_offset,
)

_FRONT_MATTER = re.compile(r"\A-{3}\s*[\n\r](.*?)[\n\r]-{3}\s*[\n\r]+", re.DOTALL)
_DIRECTIVE = re.compile(r"%%\{.*?\}%%", re.DOTALL)
_COMMENT = re.compile(r"^\s*%%(?!\{)[^\n]+\n?", re.MULTILINE)
_CARRIAGE_RETURN = re.compile(r"\r(?=\n)")

# `Parse error on line 3:`, an excerpt, an arrow below it, and the message.
_POINTED_ERROR = re.compile(
    r"\A(?:Parse|Lexical) error on line (?P<line>\d+)[.:](?P<first>[^\n]*)\n"
    r"(?P<around>[^\n]*)\n(?P<before>-*)\^\n?"
)
_EXPECTED = re.compile(r"Expecting (?:'[^']*', ){4,}got (.*)")
# How Mermaid's parsers call the end of the text.
_END = re.compile(r"(?<=got )'1'|(?<=\A)'1'")
_POSITION_TEXT = re.compile(r" at offset: \d+, skipped \d+ characters\.| \(\d+:\d+\)\Z")
_NAMED_TEXT = re.compile(r":\s*(\S.*)\Z", re.DOTALL)
_PICTURE = re.compile(r"\bimg\s*:", re.IGNORECASE)


def locate_error(source: str, error: MermaidError) -> DrawingError:
    """Return the error with its line and column in the source."""
    if error.kind == "EncodingError":
        found = _PICTURE.search(source)
        message = "pictures are not fetched; inline it as data:image/png;base64,…"
        return error_at_offset(source, found.start() if found else 0, message)
    if error.kind == "YAMLException":
        opened = source[: source.find("---")].count("\n") + 1
        message = _POSITION_TEXT.sub("", error.reason.split("\n", maxsplit=1)[0])
        line, column = error.line or 0, error.column or 0  # counted from 0
        return error_at(source, opened + line + 1, column + 1, message)
    parsed, offsets = strip_ignored(source)
    if error.kind == "UnknownDiagramError" or not parsed:
        return error_at_offset(
            source, offsets[0] if offsets else 0, "this is not a Mermaid diagram"
        )
    message = _one_line(error.reason)
    offset = _offset(parsed, error)
    if offset is None:
        return DrawingError(f"the diagram cannot be drawn: {message}")
    return error_at_offset(source, (*offsets, len(source))[offset], message)


def strip_ignored(source: str) -> tuple[str, list[int]]:
    """Return the text that Mermaid parses, and the source offset of each character."""
    offsets = list(range(len(source)))
    text = source
    for pattern in (_CARRIAGE_RETURN, _FRONT_MATTER, _DIRECTIVE, _COMMENT):
        kept = [True] * len(text)
        for found in pattern.finditer(text):
            kept[found.start() : found.end()] = [False] * (found.end() - found.start())
        offsets = [offset for offset, keep in zip(offsets, kept, strict=True) if keep]
        text = "".join(source[offset] for offset in offsets)
    first = len(text) - len(text.lstrip())
    return text[first:], offsets[first:]


def _offset(parsed: str, error: MermaidError) -> int | None:
    """Return the offset of the error in the parsed text; None if it is unknown."""
    if error.line is not None:
        start, text = _line(parsed, error.line)
        if error.preceding_end is not None:
            return start + min(_characters(text, error.preceding_end), len(text))
        column = len(text) if error.column is None else _characters(text, error.column - 1)
        return start + min(column, len(text))
    pointed = _POINTED_ERROR.match(error.reason)
    if pointed:
        start, text = _line(parsed, int(pointed["line"]))
        ahead = _skip(pointed["around"], len(pointed["before"])).removesuffix("...")
        return start + max(text.find(ahead[: len(text)]), 0)
    named = _NAMED_TEXT.search(error.reason)
    for text in (error.token, named[1] if named else ""):
        if text and text in parsed:
            return parsed.index(text)
    return None


def _line(parsed: str, number: int) -> tuple[int, str]:
    """Return the start of a line and its text; the last line if there are fewer."""
    lines = parsed.split("\n")
    index = min(max(number, 1), len(lines)) - 1
    return sum(len(line) + 1 for line in lines[:index]), lines[index]


def _characters(text: str, units: int) -> int:
    """Convert a number of UTF-16 code units, which browsers count, to characters."""
    return len(text.encode("utf-16-le")[: 2 * max(units, 0)].decode("utf-16-le", errors="ignore"))


def _skip(text: str, units: int) -> str:
    return text[_characters(text, units) :]


def _one_line(reason: str) -> str:
    pointed = _POINTED_ERROR.match(reason)
    message = f"{pointed['first']} {reason[pointed.end() :]}" if pointed else reason
    message = _POSITION_TEXT.sub("", " ".join(message.split()))
    message = _EXPECTED.sub(r"\1 is not allowed here", message)
    return _END.sub("the end", message) or "it cannot be parsed"
