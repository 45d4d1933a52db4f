"""The routes whose calls become jobs, as the developer names them: "POST /render".

A method and a path, as in the app's own table: `{name}`, or `*`, stands for one part of it between
slashes, a `*` at the end for all that follows. The path is the one the app sees, below its mount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.app_call import Scope

_ROUTE = re.compile(r"(?P<method>[A-Z]+) (?P<path>/\S*)")
_PART = re.compile(r"\{\w+(?::\w+)?\}|(?<=/)\*(?=/)")


class Routes(NamedTuple):
    """Which calls are meant."""

    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def read(cls, given: Iterable[str]) -> Routes:
        """Read what the developer has written; raises ConfigurationError."""
        if isinstance(given, str):
            raise ConfigurationError('routes is a list, such as ["POST /render"]')
        found = tuple(_read(each) for each in given)
        if not found:
            raise ConfigurationError('name the routes that become jobs: routes=["POST /render"]')
        return cls(found)

    def have(self, scope: Scope) -> bool:
        """Tell whether a call is one of them."""
        method = scope["method"]
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return any(
            method == wanted and pattern.fullmatch(path) for wanted, pattern in self.patterns
        )


def _read(text: str) -> tuple[str, re.Pattern[str]]:
    found = _ROUTE.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"{text!r} is no route: write a method and a path, POST /render")
    path = found["path"]
    rest = ""
    if path.endswith("/*"):
        path, rest = path.removesuffix("*"), ".*"
    fixed = _PART.split(path)
    if any(set("{}*") & set(each) for each in fixed):
        raise ConfigurationError(
            f"{text!r} is no route: {{name}} stands for one part of a path, /* ends it"
        )
    return found["method"], re.compile("[^/]+".join(map(re.escape, fixed)) + rest)
