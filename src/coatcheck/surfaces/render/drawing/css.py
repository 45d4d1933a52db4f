"""Style sheets that fetch nothing.

The text is changed until nothing in it can be an address that a viewer would follow. It is not
parsed: what comes out is what was looked at, letter for letter, so nobody can read it differently.

1. Comments go, and so does every backslash: with no escapes left, `url(` is written as `url(`.
2. Of the at-rules, those that cannot fetch stay; the others get a name that means nothing, and
   viewers skip them.
3. `url(...)` stays where it is a part of this very document, or an image or a font that is
   written out in it. Any other becomes a function that means nothing, and viewers drop the
   declaration. The same goes for the functions that take addresses as plain strings.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_AT_RULE = re.compile(
    r"@(?!(?:keyframes|-webkit-keyframes|media|font-face)\b)[\w-]*", re.IGNORECASE
)
_FETCHING = re.compile(r"(?:url|src|image|image-set|cross-fade|element|paint)\s*\(", re.IGNORECASE)

INLINE_IMAGE = r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*"
_INLINE_FONT = (
    r"data:(?:application/font-woff|application/x-font-ttf|font/(?:woff2?|ttf|otf))"
    r";(?:charset=[\w-]+;)?base64,[A-Za-z0-9+/=]*"
)
_HARMLESS = rf"(?:#[\w.:-]+|{INLINE_IMAGE}|{_INLINE_FONT})"
_HARMLESS_URL = re.compile(rf"""url\((?:{_HARMLESS}|"{_HARMLESS}"|'{_HARMLESS}')\)""")


def inert_css(text: str) -> str:
    """Return a style sheet, or the declarations of a style attribute, that fetches nothing."""
    text = _COMMENT.sub(" ", text).replace("\\", "")
    # Without its backslashes a text may hold a comment that it did not hold before.
    text = text.replace("/*", "/ *")
    text = _AT_RULE.sub("@removed", text)
    return _FETCHING.sub(lambda found: _judged(text, found), text)


def _judged(text: str, found: re.Match[str]) -> str:
    if found[0] == "url(" and _HARMLESS_URL.match(text, found.start()):
        return found[0]
    return "removed("
