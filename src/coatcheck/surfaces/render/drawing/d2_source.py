"""Refusing what would make D2 read a file or fetch an address: imports, and icons by name.

The sandbox is the wall (`d2.py`). This one stands in front of it to say clearly, with the line,
what is not taken, and in case that the other one has a hole.

What is inside quotes, block strings and comments is text and stays unread. The rest is looked at
as D2 reads it, which is without backslashes: `ic\\on` is `icon`.
"""

from __future__ import annotations

import re

from coatcheck.surfaces.render.drawing.css import INLINE_IMAGE
from coatcheck.surfaces.render.drawing.mistakes import mistake_at_offset

# After these, and the spaces behind them, something begins: a key, a value, a quoted string.
_BEGIN_AFTER = frozenset("\n:;{}[]().<>-&!*")

_BLOCK_STRING = re.compile(r"\|([^\w\s]*)")
_TEXT = re.compile(r'"""(?:.*?""")?|"(?:[^"\\\n]|\\.)*"?|\'(?:[^\'\n]|\'\')*\'?', re.DOTALL)
_LINE_GOES_ON = re.compile(r"\\\r?\n[ \t]*")

_IMPORT = re.compile(r"(?:\A|[\n:;{}\[(]|\.\.\.)[ \t]*(@)")
_ICON = re.compile(r"(?:\A|[\n;{}.&!])[ \t]*(icon)[ \t]*:[ \t]*", re.IGNORECASE)
_ICON_WRITTEN_OUT = re.compile(rf"(\"|'){INLINE_IMAGE}\1|null\b")


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
    last = "\n"  # the last character that is no space
    at = 0
    while at < len(source):
        character = source[at]
        end = _end_of_text(source, at) if last in _BEGIN_AFTER else at
        goes_on = _LINE_GOES_ON.match(source, at)
        if goes_on:
            at = goes_on.end()
        elif end > at:
            plain.append("\x01")
            places.append(at)
            last = "\x01"
            at = end
        elif character == "#" and (at == 0 or last in _BEGIN_AFTER or source[at - 1] in " \t"):
            newline = source.find("\n", at)
            at = newline if newline >= 0 else len(source)
        elif character == "\\":
            at += 1
            if at < len(source):
                plain.append(source[at])
                places.append(at)
                last = "\x01"
                at += 1
        else:
            plain.append(character)
            places.append(at)
            if character not in " \t\r":
                last = character
            at += 1
    return "".join(plain), places


def _end_of_text(source: str, at: int) -> int:
    """Return where the text that begins here ends, or `at` where none begins."""
    block = _BLOCK_STRING.match(source, at)
    if block:
        # `|md … |`, `||md … ||`, `` |`md … `| ``: it ends with what it began with, turned around.
        closing = block[1][::-1] + "|"
        found = source.find(closing, block.end())
        return found + len(closing) if found >= 0 else len(source)
    quoted = _TEXT.match(source, at)
    return quoted.end() if quoted else at
