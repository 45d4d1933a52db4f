"""The routes whose calls become jobs, as the developer writes them: "POST /render".

A route is a method and a path. `{name}` or `*` stands for one segment, and `*` at the end for
everything below. The path is the one the app sees, below its mount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.app_call import Scope

_ROUTE = re.compile(r"(?P<method>[A-Z]+) (?P<path>/\S*)")
_SEGMENT = re.compile(r"\{\w+(?::\w+)?\}|(?<=/)\*(?=/)")


class Routes(NamedTuple):
    """Methods and path patterns."""

    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def parse(cls, routes: Iterable[str]) -> Routes:
        """Parse routes; raises ConfigurationError."""
        if isinstance(routes, str):
            raise ConfigurationError('routes is a list, such as ["POST /render"]')
        patterns = tuple(_parse_route(each) for each in routes)
        if not patterns:
            raise ConfigurationError('list the routes that become jobs: routes=["POST /render"]')
        return cls(patterns)

    def match(self, scope: Scope) -> bool:
        """Return whether a request matches one of them."""
        method = scope["method"]
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return any(
            method == wanted and pattern.fullmatch(path) for wanted, pattern in self.patterns
        )


def _parse_route(text: str) -> tuple[str, re.Pattern[str]]:
    found = _ROUTE.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"{text!r} is not a route: write a method and a path, such as POST /render"
        )
    path = found["path"]
    rest = ""
    if path.endswith("/*"):
        path, rest = path.removesuffix("*"), ".*"
    fixed = _SEGMENT.split(path)
    if any(set("{}*") & set(each) for each in fixed):
        raise ConfigurationError(
            f"{text!r} is not a route: {{name}} stands for one segment, and /* only ends a path"
        )
    return found["method"], re.compile("[^/]+".join(map(re.escape, fixed)) + rest)
