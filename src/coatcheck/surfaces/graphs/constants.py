"""Names that several parts of the surface use."""

from __future__ import annotations

from enum import StrEnum

SURFACE = "graphs"
KIND = "graph"
QUEUE = "graphs"
ARTIFACT = "graph.json"
PREFIX = "/v1/graphs"
# The analysis reads no file that is larger.
LARGEST_SOURCE = 8 * 1024 * 1024


class GraphKind(StrEnum):
    """What somebody wants to know of a codebase."""

    CALL = "call"  # who calls whom
    DEPENDENCY = "dependency"  # which module imports which
    PARSE = "parse"  # what is defined where, and what inherits from what
    DOMAIN = "domain"  # the dependencies, and which modules belong together
    ALL = "all"  # all of it, in one pass

    @property
    def wants(self) -> frozenset[str]:
        """What the analysis is asked for."""
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
