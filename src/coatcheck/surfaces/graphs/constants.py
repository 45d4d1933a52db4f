"""Names that several parts of the surface use."""

from __future__ import annotations

from enum import StrEnum

SURFACE = "graphs"
KIND = "graph"
QUEUE = "graphs"
ARTIFACT = "graph.json"
PREFIX = "/v1/graphs"
# The analysis skips larger files.
LARGEST_SOURCE = 8 * 1024 * 1024


class GraphKind(StrEnum):
    """A kind of graph of a codebase."""

    CALL = "call"  # which function calls which
    DEPENDENCY = "dependency"  # which module imports which
    PARSE = "parse"  # definitions and inheritance
    DOMAIN = "domain"  # the dependencies, with modules grouped into domains
    ALL = "all"  # all of these, in one pass

    @property
    def wants(self) -> frozenset[str]:
        """The parts that the analysis has to produce."""
        match self:
            case GraphKind.ALL:
                return frozenset({"call", "dependency", "parse"})
            case GraphKind.DOMAIN:
                return frozenset({"dependency"})
        return frozenset({str(self)})

    @property
    def has_domains(self) -> bool:
        """Whether modules are grouped into domains."""
        return self in (GraphKind.DOMAIN, GraphKind.ALL)
