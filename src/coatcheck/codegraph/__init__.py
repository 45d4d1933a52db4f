"""A graph of source code: definitions, imports, inheritance and calls.

A library of its own, which imports nothing of the rest of Coatcheck; see README.md.

    from coatcheck.codegraph import SourceFile, analyze

    graph = analyze([SourceFile("main.py", lambda: b"print(1)")], {"call"})
"""

from coatcheck.codegraph.analyzer import Progress, analyze
from coatcheck.codegraph.graph import (
    Edge,
    EdgeKind,
    Graph,
    Node,
    NodeKind,
    Skipped,
    Stats,
    Want,
)
from coatcheck.codegraph.source import SourceFile

analyse = analyze  # the former spelling

__all__ = [
    "Edge",
    "EdgeKind",
    "Graph",
    "Node",
    "NodeKind",
    "Progress",
    "Skipped",
    "SourceFile",
    "Stats",
    "Want",
    "analyse",
    "analyze",
]
