"""The graph: nodes, edges and statistics. Structure only, never source text.

A node's id is its qualified name. Further nodes of the same name get the suffix `#2`, `#3`, in the
order of files and lines, so that the same code always has the same ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class NodeKind(StrEnum):
    """The kind of a node."""

    FILE = "file"
    MODULE = "module"
    CLASS = "class"
    FUNCTION = "function"
    METHOD = "method"
    EXTERNAL = "external"


class EdgeKind(StrEnum):
    """The relation between two nodes."""

    CALLS = "calls"
    IMPORTS = "imports"
    DEFINES = "defines"
    INHERITS = "inherits"


class Want(StrEnum):
    """The parts of a graph that a caller can ask for."""

    CALL = "call"
    DEPENDENCY = "dependency"
    PARSE = "parse"


@dataclass(slots=True)
class Node:
    """A file, a module, a definition, or an external import path."""

    id: str
    kind: NodeKind
    name: str
    qualified_name: str
    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    language: str | None = None
    signature: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the node as JSON data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True, frozen=True)
class Edge:
    """A relation from one node to another; `line` is the first occurrence in the source's file."""

    source: str
    target: str
    kind: EdgeKind
    line: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the edge as JSON data."""
        return {
            "source": self.source,
            "target": self.target,
            "kind": self.kind,
            "line": self.line,
        }


@dataclass(slots=True, frozen=True)
class Skipped:
    """A file or folder that is not, or only partly, in the graph, and the reason."""

    file: str
    reason: str

    def as_json(self) -> dict[str, str]:
        """Return the entry as JSON data."""
        return {"file": self.file, "reason": self.reason}


@dataclass(slots=True)
class Stats:
    """Statistics of an analysis."""

    files: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    languages: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    edges: int = 0
    ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the statistics as JSON data."""
        return {
            "files": self.files,
            "skipped": [skipped.as_json() for skipped in self.skipped],
            "languages": self.languages,
            "nodes": self.nodes,
            "edges": self.edges,
            "ms": self.ms,
        }


@dataclass(slots=True)
class Graph:
    """Nodes, edges and statistics."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)

    def as_json(self) -> dict[str, Any]:
        """Return the graph as JSON data."""
        return {
            "nodes": [node.as_json() for node in self.nodes],
            "edges": [edge.as_json() for edge in self.edges],
            "stats": self.stats.as_json(),
        }


class GraphBuilder:
    """Collects nodes and edges, each once, and assigns ids. Until the end, a node is a number."""

    def __init__(self) -> None:
        self.graph = Graph()
        # By name: how many nodes of the archive have it, and the number of the external one.
        self._counts: dict[str, int] = {}
        self._externals: dict[str, int] = {}
        self._packages: dict[str, int] = {}
        # (source, target, kind) -> the first line
        self._edges: dict[tuple[int, int, EdgeKind], int | None] = {}

    def add(
        self,
        kind: NodeKind,
        qualified_name: str,
        *,
        name: str,
        file: str,
        language: str | None,
        line: int | None = None,
        end_line: int | None = None,
        signature: str | None = None,
    ) -> int:
        """Add a node of the archive and return its number."""
        count = self._counts.get(qualified_name, 0) + 1
        self._counts[qualified_name] = count
        node_id = qualified_name if count == 1 else f"{qualified_name}#{count}"
        return self._append(
            Node(node_id, kind, name, qualified_name, file, line, end_line, language, signature)
        )

    def _append(self, node: Node) -> int:
        self.graph.nodes.append(node)
        return len(self.graph.nodes) - 1

    def package(self, qualified_name: str) -> int | None:
        """Return the node of a package; None if it is new, and the next node is the package."""
        known = self._packages.get(qualified_name)
        if known is None:
            self._packages[qualified_name] = len(self.graph.nodes)
        return known

    def external(self, path: str, language: str) -> int:
        """Return the node of an import path outside the archive."""
        number = self._externals.get(path)
        if number is None:
            # The archive's own definitions have their ids before edges are added.
            node_id = f"{path}#external" if path in self._counts else path
            name = path.rpartition(".")[2]
            number = self._append(Node(node_id, NodeKind.EXTERNAL, name, path, language=language))
            self._externals[path] = number
        return number

    def connect(self, source: int, target: int, kind: EdgeKind, line: int | None = None) -> None:
        """Add an edge; of a known edge, keep the first line."""
        key = (source, target, kind)
        line = line or None
        known = self._edges.setdefault(key, line)
        if line is not None and (known is None or line < known):
            self._edges[key] = line

    def finish(self) -> Graph:
        """Return the graph with its edges and counts."""
        ids = [node.id for node in self.graph.nodes]
        self.graph.edges = [
            Edge(ids[source], ids[target], kind, line)
            for (source, target, kind), line in self._edges.items()
        ]
        self.graph.stats.nodes = len(self.graph.nodes)
        self.graph.stats.edges = len(self.graph.edges)
        return self.graph
