"""From source files to a graph of who defines, imports, inherits from and calls whom.

A library of its own: it reads no archive, keeps nothing and knows no job.

    from coatcheck.surfaces.graphs.analysis import SourceFile, analyse

    graph = analyse([SourceFile("main.py", lambda: b"print(1)")], {"call"})
"""

from coatcheck.surfaces.graphs.analysis.analysing import Progress, analyse
from coatcheck.surfaces.graphs.analysis.disk.column import LARGEST, NoRoomError
from coatcheck.surfaces.graphs.analysis.graph import (
    Edge,
    EdgeKind,
    Graph,
    Node,
    NodeKind,
    Skipped,
    Stats,
    Want,
)
from coatcheck.surfaces.graphs.analysis.source import SourceFile

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
