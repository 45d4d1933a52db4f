"""The graph that comes out: nodes, edges and what was counted. Structure only, never source text.

A node's id is its qualified name where that is its own; another node of the same name has `#2`
after it, in the order of files and lines, so that the same code always has the same ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class NodeKind(StrEnum):
    """What a node stands for."""

    FILE = "file"
    MODULE = "module"
    CLASS = "class"
    FUNCTION = "function"
    METHOD = "method"
    EXTERNAL = "external"


class EdgeKind(StrEnum):
    """How two nodes hang together."""

    CALLS = "calls"
    IMPORTS = "imports"
    DEFINES = "defines"
    INHERITS = "inherits"


class Want(StrEnum):
    """What a graph is asked for."""

    CALL = "call"
    DEPENDENCY = "dependency"
    PARSE = "parse"


@dataclass(slots=True)
class Node:
    """A file, a module, a definition, or something outside the archive."""

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
        """Return the node as the API shows it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True, frozen=True)
class Edge:
    """From a node to a node. The line is the first where it shows, in the source's file."""

    source: str
    target: str
    kind: EdgeKind
    line: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the edge as the API shows it."""
        return {
            "source": self.source,
            "target": self.target,
            "kind": self.kind,
            "line": self.line,
        }


@dataclass(slots=True, frozen=True)
class Skipped:
    """A file, or a folder of them, that is not or not wholly in the graph, and why."""

    file: str
    reason: str

    def as_json(self) -> dict[str, str]:
        """Return it as the API shows it."""
        return {"file": self.file, "reason": self.reason}


@dataclass(slots=True)
class Stats:
    """What was counted on the way."""

    files: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    languages: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    edges: int = 0
    ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts as the API shows them."""
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
    """The nodes, the edges, and what was counted."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)

    def as_json(self) -> dict[str, Any]:
        """Return the graph as the API shows it."""
        return {
            "nodes": [node.as_json() for node in self.nodes],
            "edges": [edge.as_json() for edge in self.edges],
            "stats": self.stats.as_json(),
        }


class GraphBuilder:
    """Gathers nodes and edges, each once, and gives the ids."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._times: dict[str, int] = {}
        self._externals: dict[str, str] = {}
        self._packages: dict[str, str] = {}
        self._edges: dict[tuple[str, str, EdgeKind], int | None] = {}

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
    ) -> str:
        """Add a node of the archive and return its id."""
        self._times[qualified_name] = times = self._times.get(qualified_name, 0) + 1
        node_id = qualified_name if times == 1 else f"{qualified_name}#{times}"
        self.graph.nodes.append(
            Node(node_id, kind, name, qualified_name, file, line, end_line, language, signature)
        )
        return node_id

    def package(self, qualified_name: str) -> str | None:
        """Return the id of a package that an earlier file is of; remember it for later ones."""
        known = self._packages.get(qualified_name)
        if known is None:
            times = self._times.get(qualified_name, 0) + 1
            self._packages[qualified_name] = (
                qualified_name if times == 1 else f"{qualified_name}#{times}"
            )
        return known

    def external(self, path: str, language: str) -> str:
        """Return the id of something outside the archive, by its import path."""
        node_id = self._externals.get(path)
        if node_id is None:
            # The archive's own definitions have their ids by the time edges are drawn.
            node_id = f"{path}#external" if path in self._times else path
            self._externals[path] = node_id
            self.graph.nodes.append(
                Node(
                    node_id,
                    NodeKind.EXTERNAL,
                    path.rpartition(".")[2],
                    path,
                    language=language,
                )
            )
        return node_id

    def connect(self, source: str, target: str, kind: EdgeKind, line: int | None = None) -> None:
        """Add an edge, unless it is there already; the first line stays."""
        key = (source, target, kind)
        before = self._edges.get(key, 0)
        if before == 0 or (line is not None and before is not None and line < before):
            self._edges[key] = line

    def finish(self) -> Graph:
        """Return the graph with its edges and counts."""
        self.graph.edges = [Edge(*key, line) for key, line in self._edges.items()]
        self.graph.stats.nodes = len(self.graph.nodes)
        self.graph.stats.edges = len(self.graph.edges)
        return self.graph
