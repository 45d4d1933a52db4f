"""Reject D2 sources that would read a file or fetch a URL: imports, and icons by reference.

The sandbox enforces this (`d2.py`). This check runs first to report the line of the problem, and as
a second defense.

Text and comments are skipped only if they are certain: a quoted string at the start of a key, a
part of a key or a value; a block string at the start of a value; a comment at the start of a
statement. The rest is read as D2 reads it, without backslashes: `ic\\on` is `icon`. If it is
unclear whether D2 treats something as text, it is checked, so a harmless source may be rejected.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from coatcheck.surfaces.render.drawing.css import INLINE_IMAGE
from coatcheck.surfaces.render.drawing.errors import error_at_offset

_BLOCK_STRING = re.compile(r"\|([^\w\s]*)")
_BLOCK_COMMENT = re.compile(r'"""(?:.*?""")?', re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|\'(?:[^\'\n]|\'\')*\'')
_LINE_CONTINUATION = re.compile(r"\\\r?\n[^\S\n]*")

_IMPORT = re.compile(r"(?:\A|[\n:;{}\[(]|\.\.\.)[^\S\n]*(@)")
_ICON = re.compile(r"(?:\A|[\n;{}.&!])[^\S\n]*(icon)[^\S\n]*:[^\S\n]*", re.IGNORECASE)
_INLINE_ICON = re.compile(rf"(\"|'){INLINE_IMAGE}\1|null\b")


class _Position(Enum):
    """The position within a statement."""

    STATEMENT = auto()  # at its start
    PART = auto()  # at the start of a part of its key
    KEY = auto()  # further in its key
    VALUE = auto()  # at the start of its value
    BEYOND = auto()  # further in its value


def check_references(source: str) -> None:
    """Raise DrawingError if a source refers to a file or a URL."""
    plain, offsets = _strip_text(source)
    found = _IMPORT.search(plain)
    if found:
        raise error_at_offset(
            source,
            offsets[found.start(1)],
            "imports are not supported; put everything into one source",
        )
    for icon in _ICON.finditer(plain):
        value = offsets[icon.end()] if icon.end() < len(offsets) else len(source)
        if not _INLINE_ICON.match(source, value):
            raise error_at_offset(
                source,
                offsets[icon.start(1)],
                'icons are not fetched; inline it as "data:image/png;base64,…", in quotes',
            )


def _strip_text(source: str) -> tuple[str, list[int]]:
    """Return the source without text, comments and backslashes, and each character's offset.

    A text becomes one character, so that its neighbors are not joined.
    """
    plain: list[str] = []
    offsets: list[int] = []
    position = _Position.STATEMENT
    at = 0
    while at < len(source):
        continued = _LINE_CONTINUATION.match(source, at)
        end = _end_of_text(source, at, position)
        if continued:
            at = continued.end()
            continue
        escaped = end == at and source[at] == "\\" and at + 1 < len(source)
        if escaped:
            at += 1
        plain.append("\x01" if end > at else source[at])
        offsets.append(at)
        position = _after_escape(position) if escaped else _next(position, plain)
        at = max(end, at + 1)
    return "".join(plain), offsets


def _next(position: _Position, plain: list[str]) -> _Position:
    """Return the position after the last character."""
    character = plain[-1]
    if character == "{" and plain[-2:-1] == ["$"]:
        return _Position.BEYOND
    if character in "\n;{":
        return _Position.STATEMENT
    if character.isspace():
        return position
    if position is _Position.VALUE and character == "[":
        return _Position.VALUE
    if position in (_Position.VALUE, _Position.BEYOND) or character == "}":
        return _Position.BEYOND
    if character == ":":
        return _Position.VALUE
    if character in ".(" or "".join(plain[-2:]) in ("->", "--", "<-"):
        return _Position.PART
    return _Position.KEY


def _after_escape(position: _Position) -> _Position:
    """Return the position after an escaped character."""
    return _Position.BEYOND if position in (_Position.VALUE, _Position.BEYOND) else _Position.KEY


def _end_of_text(source: str, at: int, position: _Position) -> int:
    """Return the end of the text or comment that begins here, or `at` if none does."""
    if position is _Position.STATEMENT:
        if source[at] == "#":
            newline = source.find("\n", at)
            return newline if newline >= 0 else len(source)
        comment = _BLOCK_COMMENT.match(source, at)
        if comment:
            return comment.end()
    if position is _Position.VALUE:
        block = _BLOCK_STRING.match(source, at)
        if block:
            # `|md … |`, `||md … ||`, `` |`md … `| ``: other delimiters could end in more than one
            # way.
            closing = block[1] + "|" if set(block[1]) in (set(), {"|"}, {"`"}) else "|"
            found = source.find(closing, block.end())
            return found + len(closing) if found >= 0 else at
    if position in (_Position.STATEMENT, _Position.PART, _Position.VALUE):
        quoted = _QUOTED.match(source, at)
        if quoted:
            return quoted.end()
    return at
