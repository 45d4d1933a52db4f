from __future__ import annotations

import json

import pytest

from coatcheck.codegraph import EdgeKind, Graph, NodeKind, SourceFile, analyze

EVERYTHING = {"call", "dependency", "parse"}


def files(**sources: str) -> list[SourceFile]:
    """Create files: `__` in a name is `/`, and the last `_` is the dot."""
    made = []
    for name, text in sources.items():
        stem, _, ending = name.replace("__", "/").rpartition("_")
        made.append(SourceFile(f"{stem}.{ending}", text.encode))
    return made


def edges(graph: Graph, kind: EdgeKind) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.edges if edge.kind is kind}


PROGRAM = {
    "app__main_py": (
        "import os.path\n"
        "from app.base import Base\n"
        "\n"
        "class Child(Base):\n"
        "    def run(self, count: int = 3, *rest, key='secret value') -> None:\n"
        "        os.path.join('top secret', 'x')\n"
        "\n"
        "Child().run()\n"
    ),
    "app__base_py": "class Base:\n    pass\n",
}


def test_nodes_have_the_fields_of_the_api() -> None:
    graph = analyze(files(**PROGRAM), EVERYTHING)
    shown = graph.as_json()
    run = next(node for node in shown["nodes"] if node["name"] == "run")
    assert run == {
        "id": "app.main.Child.run",
        "kind": "method",
        "name": "run",
        "qualified_name": "app.main.Child.run",
        "file": "app/main.py",
        "line": 5,
        "end_line": 6,
        "language": "python",
        "signature": "run(self, count: int, *rest, key) -> None",
    }
    outside = next(node for node in shown["nodes"] if node["kind"] == "external")
    assert outside["file"] is None
    assert set(shown["edges"][0]) == {"source", "target", "kind", "line"}
    assert set(shown["stats"]) == {"files", "skipped", "languages", "nodes", "edges", "ms"}
    assert shown["stats"]["files"] == 2
    assert shown["stats"]["languages"] == {"python": 2}
    assert shown["stats"]["nodes"] == len(shown["nodes"])


def test_edges_of_every_kind() -> None:
    graph = analyze(files(**PROGRAM), EVERYTHING)
    assert edges(graph, EdgeKind.DEFINES) == {
        ("app/main.py", "app.main"),
        ("app/base.py", "app.base"),
        ("app.main", "app.main.Child"),
        ("app.main.Child", "app.main.Child.run"),
        ("app.base", "app.base.Base"),
    }
    assert edges(graph, EdgeKind.INHERITS) == {("app.main.Child", "app.base.Base")}
    assert edges(graph, EdgeKind.IMPORTS) == {
        ("app.main", "app.base"),
        ("app.main", "os"),
        ("app.main", "os.path"),
    }
    assert edges(graph, EdgeKind.CALLS) == {
        ("app.main", "app.main.Child.run"),
        ("app.main.Child.run", "os.path.join"),
    }


def test_graph_contains_no_source_text() -> None:  # G26
    shown = json.dumps(analyze(files(**PROGRAM), EVERYTHING).as_json())
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("want", "kinds"),
    [
        ("call", {EdgeKind.CALLS}),
        ("dependency", {EdgeKind.IMPORTS}),
        ("parse", {EdgeKind.DEFINES, EdgeKind.INHERITS}),
    ],
)
def test_graph_has_only_the_wanted_edges(want: str, kinds: set[EdgeKind]) -> None:
    graph = analyze(files(**PROGRAM), {want})
    assert {edge.kind for edge in graph.edges} == kinds
    ends = {edge.source for edge in graph.edges} | {edge.target for edge in graph.edges}
    assert ends <= {node.id for node in graph.nodes}


def test_unknown_want_is_rejected() -> None:
    with pytest.raises(ValueError, match="domain"):
        analyze([], {"domain"})


def test_ids_are_unique_and_stable() -> None:
    twice = "def f():\n    pass\n\n\ndef f():\n    g()\n\n\ndef g():\n    pass\n\n\nf()\n"
    made = files(a_py=twice, a__b_py="", x_js="function f() {}", x_ts="function f() {}")
    first, second = (analyze(made, EVERYTHING).as_json() for _ in range(2))
    for one in (first, second):
        one["stats"].pop("ms")
    assert first == second
    ids = [node["id"] for node in first["nodes"]]
    assert len(ids) == len(set(ids))
    assert "a.f#2" in ids


def test_files_of_one_package_share_a_module() -> None:
    graph = analyze(
        files(
            go_mod="module m\n",
            a_go="package main\nfunc f() { g() }\n",
            b_go="package main\nfunc g() {}\n",
        ),
        EVERYTHING,
    )
    assert [node.id for node in graph.nodes if node.kind is NodeKind.MODULE] == ["main"]
    assert ("main.f", "main.g") in edges(graph, EdgeKind.CALLS)
    assert {("a.go", "main"), ("b.go", "main")} <= edges(graph, EdgeKind.DEFINES)


def test_progress_counts_files() -> None:
    reported: list[tuple[int, int]] = []
    analyze(files(**PROGRAM), {"parse"}, progress=lambda done, of: reported.append((done, of)))
    assert reported == [(1, 2), (2, 2)]


def test_graph_does_not_depend_on_the_number_of_processes() -> None:
    text = "def f(x):\n    return x\n\n\nf(1)\n" + "# filling\n" * 30_000
    made = [SourceFile(f"m{number}.py", text.encode) for number in range(12)]
    alone, together = (analyze(made, EVERYTHING, workers=count).as_json() for count in (1, 2))
    alone["stats"].pop("ms")
    together["stats"].pop("ms")
    assert alone == together


STORING = {
    "box_py": (
        "class Checked:\n"
        "    def __set__(self, owner, value): ...\n"
        "\n"
        "class Box:\n"
        "    size = Checked()\n"
        "    def __init__(self, size):\n"
        "        self.size = size\n"
    ),
    "main_py": 20 * "\n" + "from box import Box\nBox(1)\n",
}


def test_line_is_in_the_file_of_the_caller() -> None:
    graph = analyze(files(**STORING), {"call"})
    lines = {(edge.source, edge.target): edge.line for edge in graph.edges}
    assert lines == {
        ("main", "box.Box.__init__"): 22,
        ("box.Box.__init__", "box.Checked.__set__"): 6,
    }


def test_edge_has_its_first_line() -> None:
    later = "def f(): ...\ndef g(): ...\ndef h():\n    f()\n    g()\n    f()\n"
    graph = analyze(files(main_py=later), {"call"})
    assert [(edge.target, edge.line) for edge in graph.edges] == [("main.f", 4), ("main.g", 5)]
