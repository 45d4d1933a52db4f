"""The summary of one file of a tagged language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.codegraph.summary import DefinitionSummary


class Reference(NamedTuple):
    """A call, as it is written in the source."""

    caller: int  # index of definitions
    form: str  # "name", "self", "super", "type" or "new"
    owner: str  # the named type, for "type" and "new"; "a.b" if it has a path
    name: str
    line: int


@dataclass(slots=True)
class TaggedSummary:
    """Definitions, imports and calls of one file."""

    namespace: str = ""  # declared in the file; the prefix of the definitions' names
    definitions: list[DefinitionSummary] = field(default_factory=list)
    local: set[int] = field(default_factory=set)  # definitions that other files cannot see
    bases: list[tuple[int, str, int]] = field(default_factory=list)  # (class, name, line)
    imports: list[tuple[str, str, int]] = field(default_factory=list)  # (path, alias, line)
    includes: list[tuple[str, int]] = field(default_factory=list)  # (file, line)
    references: list[Reference] = field(default_factory=list)
