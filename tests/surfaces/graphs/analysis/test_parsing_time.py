from __future__ import annotations

from coatcheck.surfaces.graphs.analysis import SourceFile, analyse
from coatcheck.surfaces.graphs.analysis.languages import (
    LONGEST_PARSE_S,
    parser_of,
    set_longest_parse,
)


def test_a_parse_without_end_skips_the_file_alone() -> None:
    slow = b"x = f(1, 2)\n" * 100_000
    parser = parser_of("python")
    set_longest_parse(parser, 0.005)
    try:
        graph = analyse(
            [
                SourceFile("slow.py", lambda: slow),
                SourceFile("tail.py", lambda: b"def f():\n    pass\n\n\nf()\n"),
            ],
            {"call"},
            workers=1,
        )
    finally:
        set_longest_parse(parser, LONGEST_PARSE_S)
    assert [(one.file, one.reason) for one in graph.stats.skipped] == [
        ("slow.py", "not parsed within 20 seconds")
    ]
    assert [(edge.source, edge.target) for edge in graph.edges] == [("tail", "tail.f")]
