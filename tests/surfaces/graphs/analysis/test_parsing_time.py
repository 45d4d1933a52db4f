from __future__ import annotations

import warnings

import pytest

from coatcheck.surfaces.graphs.analysis import SourceFile, analyse
from coatcheck.surfaces.graphs.analysis.languages import parser_of


def test_a_parse_without_end_skips_the_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = parser_of("python")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        before = parser.timeout_micros
        parser.timeout_micros = 200_000
    # Comments behind code are not emptied, and take time in the square of their number.
    slow = b"x\n" + b"\n".join([b"#" * 9] * 40 + [b""]) * 400
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            parser.timeout_micros = before
    assert [(one.file, one.reason) for one in graph.stats.skipped] == [
        ("slow.py", "not parsed within 20 seconds")
    ]
    assert [(edge.source, edge.target) for edge in graph.edges] == [("tail", "tail.f")]
