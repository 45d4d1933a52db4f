"""Sanitize style sheets so that they fetch nothing.

The text is edited until no part of it can be a URL that a viewer would follow. It is not parsed:
the output is exactly the text that was checked, so no viewer can interpret it differently.

1. Comments are removed, and so is every backslash: without escapes, `url(` can only be written as
   `url(`.
2. At-rules that cannot fetch are kept. The others are renamed to an unknown rule, which viewers
   skip.
3. `url(...)` is kept if it refers to this document, or to an inline image or font. Any other is
   renamed to an unknown function, and viewers drop the declaration. The same applies to functions
   that take URLs as plain strings.
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
_SAFE = rf"(?:#[\w.:-]+|{INLINE_IMAGE}|{_INLINE_FONT})"
_SAFE_URL = re.compile(rf"""url\((?:{_SAFE}|"{_SAFE}"|'{_SAFE}')\)""")


def sanitize_css(text: str) -> str:
    """Return a style sheet, or the declarations of a style attribute, without anything that
    fetches.
    """
    text = _COMMENT.sub(" ", text).replace("\\", "")
    # Removing backslashes may create a new comment.
    text = text.replace("/*", "/ *")
    text = _AT_RULE.sub("@removed", text)
    return _FETCHING.sub(lambda found: _keep_or_remove(text, found), text)


def _keep_or_remove(text: str, found: re.Match[str]) -> str:
    if found[0] == "url(" and _SAFE_URL.match(text, found.start()):
        return found[0]
    return "removed("
