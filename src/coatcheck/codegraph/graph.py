"""The graph that comes out: nodes, edges and what was counted. Structure only, never source text.

A node's id is its qualified name where that is its own; another node of the same name has `#2`
after it, in the order of files and lines, so that the same code always has the same ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.tables import Keys, Table
from coatcheck.codegraph.disk.words import Words


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
    """Gathers nodes and edges, each once, and gives the ids. Until the end, nodes are numbers."""

    def __init__(self, disk: Disk) -> None:
        self.graph = Graph()
        self._disk = disk
        self._names = Words(disk)
        # By name: how many nodes of the archive have it, and the number of the one outside.
        self._times = Table(disk, 1)
        self._externals = Table(disk, 1)
        self._packages: dict[str, int] = {}
        # Source, target and kind; with the first line, 0 where there is none.
        self._edges = Keys(disk, 3)
        self._lines = disk.column("i", 1)

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
        word = self._names[qualified_name]
        times = (self._times.put((word,), 1) or 0) + 1
        if times > 1:
            self._times.put((word,), times)
        node_id = qualified_name if times == 1 else f"{qualified_name}#{times}"
        return self._append(
            Node(node_id, kind, name, qualified_name, file, line, end_line, language, signature)
        )

    def _append(self, node: Node) -> int:
        self.graph.nodes.append(node)
        return len(self.graph.nodes) - 1

    def package(self, qualified_name: str) -> int | None:
        """Return the node of a package that an earlier file is of; the next node is, otherwise."""
        known = self._packages.get(qualified_name)
        if known is None:
            self._packages[qualified_name] = len(self.graph.nodes)
        return known

    def external(self, path: str, language: str) -> int:
        """Return the node of something outside the archive, by its import path."""
        word = self._names[path]
        number = self._externals.get(word)
        if number is None:
            # The archive's own definitions have their ids by the time edges are drawn.
            node_id = path if self._times.get(word) is None else f"{path}#external"
            name = path.rpartition(".")[2]
            number = self._append(Node(node_id, NodeKind.EXTERNAL, name, path, language=language))
            self._externals.put((word,), number)
        return number

    def connect(self, source: int, target: int, kind: EdgeKind, line: int | None = None) -> None:
        """Add an edge, unless it is there already; the first line stays."""
        edge = self._edges.number((source, target, _EDGE_KINDS.index(kind)))
        if edge == self._lines.count:
            self._lines.append(line or 0)
            if not edge % _EDGES:
                self._disk.breathe()
        elif line and not 0 < self._lines.numbers[edge] <= line:
            self._lines.numbers[edge] = line

    def finish(self) -> Graph:
        """Return the graph with its edges and counts."""
        nodes = self.graph.nodes
        for number in range(1, self._lines.count):
            if not number % _EDGES:
                self._disk.let_go()  # they come one after the other, and for the last time
            source, target, kind = self._edges.key(number)
            line = self._lines.numbers[number] or None
            edge = Edge(nodes[source].id, nodes[target].id, _EDGE_KINDS[kind], line)
            self.graph.edges.append(edge)
        self.graph.stats.nodes = len(self.graph.nodes)
        self.graph.stats.edges = len(self.graph.edges)
        return self.graph


_EDGE_KINDS = tuple(EdgeKind)
# How many are added between two looks at the memory.
_EDGES = 2_048
