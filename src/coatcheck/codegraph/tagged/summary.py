"""What is kept of one file."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.codegraph.disk.shelf import Shelf
from coatcheck.codegraph.python.summary import DefinitionSummary


class Mention(NamedTuple):
    """A call, as it is written."""

    runner: int  # index of definitions
    form: str  # "name", "self", "super", "type" or "new"
    owner: str  # the type that is named, for "type" and "new"; "a.b" where it has a path
    name: str
    line: int


@dataclass(slots=True)
class TaggedSummary:
    """One file."""

    namespace: str = ""  # as the file says; the definitions are named from it
    definitions: list[DefinitionSummary] = field(default_factory=list)
    local: set[int] = field(default_factory=set)  # definitions that other files do not see
    bases: list[tuple[int, str, int]] = field(default_factory=list)  # (class, name, line)
    imports: list[tuple[str, str, int]] = field(default_factory=list)  # (path, alias, line)
    includes: list[tuple[str, int]] = field(default_factory=list)  # (file, line)
    mentions: list[Mention] = field(default_factory=list)
    _shelf: Shelf | None = None
    _number: int = 0

    def put_by(self, shelf: Shelf) -> None:
        """Put the mentions on a shelf: they are what the graph does not show as it is."""
        self._shelf, self._number = shelf, shelf.put(pickle.dumps(self.mentions, -1))
        self.mentions = []

    def mentioned(self) -> list[Mention]:
        """Return the mentions, from wherever they are."""
        if self._shelf is None:
            return self.mentions
        found: list[Mention] = pickle.loads(self._shelf.get(self._number))  # noqa: S301 - our own
        return found
