"""Small programs with known calls.

A program is a folder: its files, and `expected.txt`, written by hand, with a line for each caller:
`caller: callee callee`. If the analysis reports more calls than happen, `loose.txt` says which. If
the program cannot be run, `not_run.txt` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coatcheck.codegraph import EdgeKind, SourceFile, analyze

PROGRAMS = Path(__file__).parent / "programs"
_NOTES = {"expected.txt", "loose.txt", "not_run.txt"}

Calls = set[tuple[str, str]]


@dataclass(frozen=True)
class Program:
    """A program and its ground truth."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.relative_to(PROGRAMS).as_posix()

    @property
    def feature(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def can_run(self) -> bool:
        return not (self.folder / "not_run.txt").exists()

    def files(self) -> list[SourceFile]:
        return [
            SourceFile(path.relative_to(self.folder).as_posix(), path.read_bytes)
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.name not in _NOTES and "__pycache__" not in path.parts
        ]

    def expected(self) -> Calls:
        found: Calls = set()
        for line in (self.folder / "expected.txt").read_text().splitlines():
            caller, _, callees = line.partition(": ")
            found |= {(caller.strip(), callee) for callee in callees.split()}
        return found

    def found(self) -> Calls:
        graph = analyze(self.files(), {"call"}, workers=1)
        names = {node.id: node.qualified_name for node in graph.nodes}
        return {
            (names[edge.source], names[edge.target])
            for edge in graph.edges
            if edge.kind is EdgeKind.CALLS
        }


def programs(language: str) -> list[Program]:
    """Return the programs of a language."""
    return [Program(path.parent) for path in sorted((PROGRAMS / language).rglob("expected.txt"))]
