"""The module graph: which file of a codebase uses which, with a node for each file.

Edges between definitions count for their files. Code outside the codebase is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

DEPENDS = frozenset({"imports", "calls", "inherits"})


class ModuleGraph(NamedTuple):
    """Files by path with their module names, and how often one file uses another."""

    names: dict[str, str]
    uses: Counter[tuple[str, str]]

    @property
    def files(self) -> list[str]:
        """The files, in order."""
        return sorted(self.names)

    def imported_by(self) -> dict[str, list[str]]:
        """Return, for each file, the files that it uses."""
        found: dict[str, list[str]] = {file: [] for file in self.files}
        for one, other in sorted(self.uses):
            found[one].append(other)
        return found


def module_graph(
    nodes: Iterable[Mapping[str, Any]],
    edges: Iterable[Mapping[str, Any]],
    kinds: frozenset[str] = DEPENDS,
) -> ModuleGraph:
    """Return the module graph of a graph in JSON form, from edges of these kinds."""
    names: dict[str, str] = {}
    file_of: dict[str, str] = {}
    for node in nodes:
        file = node["file"]
        if file is None:
            continue
        file_of[node["id"]] = file
        if node["kind"] == "module":
            names[file] = node["qualified_name"]
        else:
            names.setdefault(file, file)
    uses: Counter[tuple[str, str]] = Counter()
    for edge in edges:
        if edge["kind"] in kinds:
            one, other = file_of.get(edge["source"]), file_of.get(edge["target"])
            if one is not None and other is not None and one != other:
                uses[one, other] += 1
    return ModuleGraph(names, uses)


def import_cycles(graph: ModuleGraph) -> list[list[str]]:
    """Return the groups of files that use each other in a cycle, largest first."""
    uses = graph.imported_by()
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_files: list[str] = []
    is_open: set[str] = set()
    found: list[list[str]] = []
    for root in uses:
        if root in number:
            continue
        # Tarjan's algorithm with an explicit stack: a chain of imports may be long.
        work = [(root, iter(uses[root]))]
        number[root] = lowest[root] = len(number)
        open_files.append(root)
        is_open.add(root)
        while work:
            file, others = work[-1]
            for other in others:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    open_files.append(other)
                    is_open.add(other)
                    work.append((other, iter(uses[other])))
                    break
                if other in is_open:
                    lowest[file] = min(lowest[file], number[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[file])
                if lowest[file] == number[file]:
                    place = open_files.index(file)
                    group = open_files[place:]
                    del open_files[place:]
                    is_open.difference_update(group)
                    if len(group) > 1:
                        found.append(sorted(group))
    return sorted(found, key=lambda group: (-len(group), group))


def most_called(
    nodes: Iterable[Mapping[str, Any]], edges: Iterable[Mapping[str, Any]], most: int
) -> list[tuple[str, int]]:
    """Return the codebase's own functions with the most callers, and the number of callers."""
    own = {
        node["id"]: node["qualified_name"]
        for node in nodes
        if node["kind"] in ("function", "method", "class")
    }
    callers = Counter(
        edge["target"] for edge in edges if edge["kind"] == "calls" and edge["target"] in own
    )
    ranked = sorted(callers.items(), key=lambda item: (-item[1], own[item[0]]))
    return [(own[target], count) for target, count in ranked[:most]]
