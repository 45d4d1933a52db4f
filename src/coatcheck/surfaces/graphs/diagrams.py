"""The module graph of a codebase as Graphviz and Mermaid source."""

from __future__ import annotations

import re

from coatcheck.surfaces.graphs.module_graph import ModuleGraph, import_cycles

# A diagram with more modules is unreadable.
MOST_MODULES = 80
MOST_EDGES = 400
_NOT_PLAIN = re.compile(r"[^\w./ -]")
# The color of imports that are part of a cycle.
_IN_A_CIRCLE = "#c62828"


def as_dot(graph: ModuleGraph) -> str:
    """Return a module graph as Graphviz source. Imports in a cycle are red."""
    red = _in_circles(graph)
    lines = ["digraph modules {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    lines += [f"  {_quoted(file)} [label={_quoted(graph.names[file])}];" for file in graph.files]
    for (one, other), count in sorted(graph.uses.items()):
        colour = f', color="{_IN_A_CIRCLE}"' if (one, other) in red else ""
        lines.append(f"  {_quoted(one)} -> {_quoted(other)} [weight={count}{colour}];")
    return "\n".join([*lines, "}", ""])


def as_mermaid(graph: ModuleGraph) -> str:
    """Return a module graph as a Mermaid flowchart. Imports in a cycle are red."""
    number = {file: place for place, file in enumerate(graph.files)}
    red = _in_circles(graph)
    lines = ["flowchart LR"]
    shared = len(_shared_package([graph.names[file] for file in graph.files]))
    lines += [f'  m{number[file]}["{_plain(graph.names[file][shared:])}"]' for file in graph.files]
    edges = sorted(graph.uses)
    lines += [f"  m{number[one]} --> m{number[other]}" for one, other in edges]
    circles = ",".join(str(place) for place, edge in enumerate(edges) if edge in red)
    if circles:
        lines.append(f"  linkStyle {circles} stroke:{_IN_A_CIRCLE}")
    return "\n".join([*lines, ""])


def _in_circles(graph: ModuleGraph) -> set[tuple[str, str]]:
    circle = {file: place for place, group in enumerate(import_cycles(graph)) for file in group}
    return {
        (one, other)
        for one, other in graph.uses
        if one in circle and circle[one] == circle.get(other)
    }


def _shared_package(names: list[str]) -> str:
    """Return the package that all modules share, with its dot, to omit it from every label."""
    shared: list[str] = []
    for parts in zip(*(name.split(".")[:-1] for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "".join(f"{part}." for part in shared)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _plain(text: str) -> str:
    return _NOT_PLAIN.sub("_", text) or "_"
