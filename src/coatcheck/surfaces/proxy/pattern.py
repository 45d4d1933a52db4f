"""Which calls a rule is for: a method and a path, `POST /reports/*`.

`*` stands for a whole segment: in the middle for one, at the end for anything below. Paths are
compared decoded, as they are routed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from coatcheck.errors import ConfigurationError

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ANY = "*"
_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()+,;=:@-]+")


class RoutePattern(NamedTuple):
    """A method, and the segments of a path."""

    method: str
    segments: tuple[str, ...]

    @classmethod
    def read(cls, text: str, what: str) -> RoutePattern:
        """Read a pattern; raises ConfigurationError. `what` names it in errors."""
        method, space, path = text.partition(" ")
        if not space or method not in METHODS or not path.startswith("/"):
            raise ConfigurationError(
                f"{what}: {text!r} is not a method and a path, such as POST /reports/*; the "
                f"methods are {', '.join(METHODS)} (HEAD goes with GET)"
            )
        segments = tuple(path[1:].split("/")) if path != "/" else ()
        for segment in segments:
            if segment != ANY and (not _SEGMENT.fullmatch(segment) or segment in (".", "..")):
                raise ConfigurationError(
                    f"{what}: {text!r} has the segment {segment!r}; a segment is *, or letters, "
                    "digits and - . _ ~ ! $ & ' ( ) + , ; = : @"
                )
        return cls(method, segments)

    def __str__(self) -> str:
        return f"{self.method} /{'/'.join(self.segments)}"

    @property
    def route(self) -> str:
        """The path as the router has it."""
        *first, last = self.segments or ("",)
        parts = [f"{{s{n}}}" if each == ANY else each for n, each in enumerate(first)]
        return "/" + "/".join([*parts, "{rest:path}" if last == ANY else last])

    def matches(self, method: str, path: str) -> bool:
        """Tell whether a call is one of these; the path is as it was written, with its query."""
        if method != self.method and (method, self.method) != ("HEAD", "GET"):
            return False
        asked = unquote(path.partition("?")[0])
        return _fits(self.segments, asked[1:].split("/") if asked != "/" else [])

    def overlaps(self, other: RoutePattern) -> bool:
        """Tell whether there is a call that both are for."""
        return self.method == other.method and _meet(self.segments, other.segments)


def _fits(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    for number, wanted in enumerate(pattern):
        if wanted == ANY and number == len(pattern) - 1:
            return len(segments) > number
        if number >= len(segments):
            return False
        if wanted == ANY:
            if not segments[number]:
                return False
        elif wanted != segments[number]:
            return False
    return len(segments) == len(pattern)


def _meet(one: Sequence[str], other: Sequence[str]) -> bool:
    for number in range(max(len(one), len(other))):
        ends = [len(each) == number + 1 and each[number] == ANY for each in (one, other)]
        if any(ends):  # whatever is below; the other has at least one segment here
            return len(one) > number and len(other) > number
        if number >= min(len(one), len(other)):
            return False
        if ANY not in (one[number], other[number]) and one[number] != other[number]:
            return False
    return True
