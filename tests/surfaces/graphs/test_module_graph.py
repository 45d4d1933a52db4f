"""Which file uses which, in circles too, and who is called most."""

from __future__ import annotations

from typing import Any

from coatcheck.surfaces.graphs.module_graph import import_cycles, module_graph, most_called


def node(name: str, kind: str, file: str | None) -> dict[str, Any]:
    return {"id": name, "kind": kind, "file": file, "qualified_name": name}


def edge(source: str, target: str, kind: str = "imports") -> dict[str, Any]:
    return {"source": source, "target": target, "kind": kind}


NODES = [
    *(node(name, "module", f"{name}.py") for name in "abcde"),
    *(node(f"{name}.f", "function", f"{name}.py") for name in "abcde"),
    node("os", "external", None),
]


def test_edges_between_definitions_count_for_their_files() -> None:
    edges = [edge("a", "b"), edge("a.f", "b.f", "calls"), edge("a", "a.f", "defines")]
    found = module_graph(NODES, [*edges, edge("a", "os"), edge("a.f", "a", "calls")])
    assert found.names["a.py"] == "a"
    assert found.uses == {("a.py", "b.py"): 2}


def test_circles() -> None:
    edges = [edge(*pair) for pair in ("ab", "bc", "ca", "cd", "de", "ed", "ea")]
    assert import_cycles(module_graph(NODES, edges)) == [["a.py", "b.py", "c.py", "d.py", "e.py"]]
    assert import_cycles(module_graph(NODES, edges[:-1])) == [
        ["a.py", "b.py", "c.py"],
        ["d.py", "e.py"],
    ]
    assert (
        import_cycles(module_graph(NODES, [edge("a", "b"), edge("a", "c"), edge("b", "c")])) == []
    )


def test_a_long_chain_of_imports() -> None:
    nodes = [node(f"m{number}", "module", f"m{number}.py") for number in range(3000)]
    edges = [edge(f"m{number}", f"m{number + 1}") for number in range(2999)]
    assert import_cycles(module_graph(nodes, edges)) == []
    circle = import_cycles(module_graph(nodes, [*edges, edge("m2999", "m0")]))
    assert [len(group) for group in circle] == [3000]


def test_who_is_called_most() -> None:
    calls = [("a.f", "b.f"), ("c.f", "b.f"), ("a.f", "c.f"), ("a.f", "os"), ("b.f", "os")]
    edges = [edge(*pair, "calls") for pair in calls]
    assert most_called(NODES, edges, 5) == [("b.f", 2), ("c.f", 1)]
    assert most_called(NODES, edges, 1) == [("b.f", 2)]
