"""Named SQL statements, read once from a file.

Each statement is preceded by `-- name: statement_name` and, unless it is obvious, by comments that
say why it is written that way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources.abc import Traversable

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Queries:
    """The statements of one file, as attributes."""

    def __init__(
        self, source: Traversable, adapt: Callable[[str], str] = lambda text: text
    ) -> None:
        pieces = _HEAD.split(adapt(source.read_text(encoding="utf-8")))
        self._statements: dict[str, str] = {}
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
            if name in self._statements:
                raise ValueError(f"{source.name}: the query {name!r} is there twice")
            lines = [line for line in body.splitlines() if not line.startswith("--")]
            self._statements[name] = "\n".join(lines).strip().rstrip(";")

    def __getattr__(self, name: str) -> str:
        try:
            return self._statements[name]
        except KeyError:
            raise AttributeError(f"there is no query named {name!r}") from None

    def names(self) -> list[str]:
        """List the names of all statements."""
        return list(self._statements)
