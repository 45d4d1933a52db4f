"""Refusing what would make D2 read a file or fetch an address: imports, and icons by name.

The sandbox is the wall (`d2.py`). This one stands in front of it to say clearly, with the line,
what is not taken, and in case that the other one has a hole.

What is certainly text or comment stays unread: a quoted string where a key, a part of a key or a
value begins; a block string where a value begins; a comment where a statement begins. All the rest
is looked at as D2 reads it, which is without backslashes: `ic\\on` is `icon`. Where it is not clear
what D2 takes for text, it is looked at, too: rather is something refused that is harmless.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from coatcheck.surfaces.render.drawing.css import INLINE_IMAGE
from coatcheck.surfaces.render.drawing.errors import mistake_at_offset

_BLOCK_STRING = re.compile(r"\|([^\w\s]*)")
_BLOCK_COMMENT = re.compile(r'"""(?:.*?""")?', re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|\'(?:[^\'\n]|\'\')*\'')
_LINE_GOES_ON = re.compile(r"\\\r?\n[^\S\n]*")

_IMPORT = re.compile(r"(?:\A|[\n:;{}\[(]|\.\.\.)[^\S\n]*(@)")
_ICON = re.compile(r"(?:\A|[\n;{}.&!])[^\S\n]*(icon)[^\S\n]*:[^\S\n]*", re.IGNORECASE)
_ICON_WRITTEN_OUT = re.compile(rf"(\"|'){INLINE_IMAGE}\1|null\b")


class _At(Enum):
    """Where in a statement we are."""

    STATEMENT = auto()  # at its beginning
    PART = auto()  # where a part of its key begins
    KEY = auto()  # further in its key
    VALUE = auto()  # where its value begins
    BEYOND = auto()  # further in its value


def refuse_reaching_out(source: str) -> None:
    """Raise DrawingError where a source names something to be read."""
    plain, places = _without_text(source)
    found = _IMPORT.search(plain)
    if found:
        raise mistake_at_offset(
            source, places[found.start(1)], "imports are not read here; write it out in one source"
        )
    for icon in _ICON.finditer(plain):
        value = places[icon.end()] if icon.end() < len(places) else len(source)
        if not _ICON_WRITTEN_OUT.match(source, value):
            raise mistake_at_offset(
                source,
                places[icon.start(1)],
                'icons are not fetched here; write it out as "data:image/png;base64,…", in quotes',
            )


def _without_text(source: str) -> tuple[str, list[int]]:
    """Return what is neither text nor comment nor backslash, and where each character of it was.

    A text becomes one character, so that what stands around it does not come together.
    """
    plain: list[str] = []
    places: list[int] = []
    where = _At.STATEMENT
    at = 0
    while at < len(source):
        goes_on = _LINE_GOES_ON.match(source, at)
        end = _end_of_text(source, at, where)
        if goes_on:
            at = goes_on.end()
            continue
        escaped = end == at and source[at] == "\\" and at + 1 < len(source)
        if escaped:
            at += 1
        plain.append("\x01" if end > at else source[at])
        places.append(at)
        where = _beyond(where) if escaped else _next(where, plain)
        at = max(end, at + 1)
    return "".join(plain), places


def _next(where: _At, plain: list[str]) -> _At:
    """Return where we are behind the last character."""
    character = plain[-1]
    if character == "{" and plain[-2:-1] == ["$"]:
        return _At.BEYOND
    if character in "\n;{":
        return _At.STATEMENT
    if character.isspace():
        return where
    if where is _At.VALUE and character == "[":
        return _At.VALUE
    if where in (_At.VALUE, _At.BEYOND) or character == "}":
        return _At.BEYOND
    if character == ":":
        return _At.VALUE
    if character in ".(" or "".join(plain[-2:]) in ("->", "--", "<-"):
        return _At.PART
    return _At.KEY


def _beyond(where: _At) -> _At:
    """Return where we are behind a character that is only itself."""
    return _At.BEYOND if where in (_At.VALUE, _At.BEYOND) else _At.KEY


def _end_of_text(source: str, at: int, where: _At) -> int:
    """Return where the text or the comment that begins here ends, or `at` where none begins."""
    if where is _At.STATEMENT:
        if source[at] == "#":
            newline = source.find("\n", at)
            return newline if newline >= 0 else len(source)
        comment = _BLOCK_COMMENT.match(source, at)
        if comment:
            return comment.end()
    if where is _At.VALUE:
        block = _BLOCK_STRING.match(source, at)
        if block:
            # `|md … |`, `||md … ||`, `` |`md … `| ``: others could end in more than one way.
            closing = block[1] + "|" if set(block[1]) in (set(), {"|"}, {"`"}) else "|"
            found = source.find(closing, block.end())
            return found + len(closing) if found >= 0 else at
    if where in (_At.STATEMENT, _At.PART, _At.VALUE):
        quoted = _QUOTED.match(source, at)
        if quoted:
            return quoted.end()
    return at
