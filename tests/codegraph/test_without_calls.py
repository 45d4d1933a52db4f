"""Without calls, less of a file is read; the rest of the graph is the same."""

from __future__ import annotations

import pytest

from coatcheck.codegraph import EdgeKind, Graph, NodeKind, SourceFile, analyze
from coatcheck.codegraph.summarizer import summarize_file
from tests.codegraph.ground_truth import Program, programs

PROGRAMS = [each for name in ("python", "javascript", "java", "go") for each in programs(name)]

Shape = tuple[set[tuple[str, str, str]], set[tuple[str, str, str, str]]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_graph_of_a_program_is_the_same(program: Program) -> None:
    assert analyzed_shape(program.files(), {"parse", "dependency"}) == analyzed_shape(
        program.files(), {"parse", "dependency", "call"}
    )


_LOOP = """
class A: pass
class B: pass
class C: pass
D = A
for each in all:
    run(D)
    if each:
        D = B
    class E(D): pass
    D = C
"""


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.py", "def f():\n    import os\n    class A: pass\n    return lambda: A\n"),
        ("a.py", "def f():\n    global B\n    B = int\nclass C(B): pass\n"),
        ("a.py", "def f():\n    def g():\n        from x import y\n        return y\n"),
        ("a.py", "def f(key=lambda: 1):\n    return key\n"),
        ("a.py", "run(1, [2, {3: lambda: 4}], key=lambda: 5)\n"),
        ("a.py", "if run(lambda: 1) == 2:\n    x[lambda: 3] = f'{(lambda: 4)()}'\n"),
        ("a.py", "assert all((lambda: x)() for x in y), lambda: 1\n"),
        ("a.py", "@run(lambda: 1)\ndef f(): pass\n"),
        ("a.py", "def f():\n    try: g()\n    except E:\n        with h(): import os\n"),
        ("a.py", "class A: pass\nif (B := A): pass\nclass C(B): pass\n"),
        ("a.py", "class A: pass\ndef f():\n    B = A\n    class C(B): pass\n"),
        ("a.py", "class A: pass\nB = None or A\nclass C(B if x else A): pass\n"),
        ("a.py", "class A: pass\nclass B: pass\nC, D = A, B\nclass E(C): pass\n"),
        ("a.py", "class A:\n    class B: pass\nC = A.B\nclass D(C): pass\n"),
        ("a.py", "class A:\n    class B: pass\nC = A.B\nclass D(C[int]): pass\n"),
        ("a.py", _LOOP),
        ("a.py", "@run\nclass A: pass\nclass B(A): pass\n"),
        ("a.py", "def f(a, /, b: int, *c, d=1, **e) -> dict[str, int]: pass\nclass A: pass\n"),
        ("a.js", "function f() { return { m() { return 1 } } }\n"),
        ("a.js", "function f() { const g = async (x) => x; class A { n() {} } }\n"),
        ("a.js", "function f() { if (x) { return require('./b') } }\n"),
        ("a.ts", "function f(): object { return { m(a: number): number { return a } } }\n"),
        ("A.java", "class A { void f() { Runnable r = () -> {}; } }\n"),
        ("A.java", "class A { Object f() { return new Object() { int g() { return 1; } }; } }\n"),
        ("A.java", "class A { void f() { class B extends A {} record C(int x) {} } }\n"),
        ("A.java", "class A { Runnable r = () -> {}; }\n"),
        ("A.java", "class A { static { new A() { int g() { return 1; } }; } }\n"),
        ("A.java", "enum A { B { int g() { return 1; } }, C(() -> 1); A(Object... x) {} }\n"),
        ("a.go", "package a\nfunc f() { g := func() {}; type T struct{}; g() }\n"),
    ],
)  # fmt: skip
def test_definitions_within_functions_are_found(path: str, source: str) -> None:
    def files() -> list[SourceFile]:
        return [SourceFile(path, source.encode)]

    without, whole = analyzed_shape(files(), {"parse", "dependency"}), analyzed_shape(
        files(), {"parse", "dependency", "call"}
    )  # fmt: skip
    assert without == whole
    assert len(without[0]) > 2, "more than the file and a function"


def test_body_without_definitions_is_not_read() -> None:
    source = "def f(x):\n    return x.y(1, 'two', [3])\n"
    graph = analyze([SourceFile("a.py", source.encode)], {"parse"}, workers=1)
    assert [node.qualified_name for node in graph.nodes if node.kind is NodeKind.FUNCTION] == [
        "a.f"
    ]


def test_expressions_only_calls_need_take_no_variables() -> None:
    said = "value = 1\n"
    idle = "table = {'a': [b, c.d], 'e': f(g, h.i)}\nprint(table, j < k)\nassert l(m)\n"
    run = "def f(n, o=p.q):\n    r = n.s(o)\n    return r\n"
    whole = summarize_file("a.py", (said + idle + run).encode(), with_calls=False).summary
    names = summarize_file("a.py", f"{said}table = 1\nf = 1\n".encode(), with_calls=False).summary
    assert whole.variables <= names.variables + 2, "one for each of the names"
    assert not whole.loads
    assert not whole.functions


def analyzed_shape(files: list[SourceFile], want: set[str]) -> Shape:
    return shape_of(analyze(files, want, workers=1))


def shape_of(graph: Graph) -> Shape:
    """Return the nodes and edges except calls."""
    names = {node.id: node.qualified_name for node in graph.nodes}
    edges = {
        (names[edge.source], names[edge.target], str(edge.kind), str(edge.line))
        for edge in graph.edges
        if edge.kind is not EdgeKind.CALLS
    }
    nodes = {
        (str(node.kind), node.qualified_name, node.signature or "")
        for node in graph.nodes
        if node.kind is not NodeKind.EXTERNAL
    }
    return nodes, edges
