"""Reading one file of Python."""

from __future__ import annotations

from tree_sitter import Node

from coatcheck.surfaces.graphs.analysis.python.statements import Statements
from coatcheck.surfaces.graphs.analysis.python.summary import PythonSummary


def summarise(source: bytes, root: Node) -> tuple[PythonSummary, int]:
    """Return what is kept of a file, and the first line that was too deep to read, or 0."""
    reader = Statements(source)
    return reader.file(root), reader.too_deep_line
