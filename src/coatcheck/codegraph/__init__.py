"""From source files to a graph of who defines, imports, inherits from and calls whom.

A library of its own: it reads no archive, keeps nothing and knows no job.

    from coatcheck.codegraph import SourceFile, analyse

    graph = analyse([SourceFile("main.py", lambda: b"print(1)")], {"call"})
"""

from coatcheck.codegraph.analyzer import Progress, analyse
from coatcheck.codegraph.disk.column import LARGEST, NoRoomError
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

__all__ = [
    "LARGEST",
    "Edge",
    "EdgeKind",
    "Graph",
    "NoRoomError",
    "Node",
    "NodeKind",
    "Progress",
    "Skipped",
    "SourceFile",
    "Stats",
    "Want",
    "analyse",
]
