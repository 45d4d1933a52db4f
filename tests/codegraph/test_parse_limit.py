from __future__ import annotations

import pytest

from coatcheck.codegraph import SourceFile, analyze, languages
from coatcheck.codegraph.languages import MAX_LIMIT_S, parse_limit


def test_parse_timeout_skips_the_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = b"x = f(1, 2)\n" * 100_000
    set_limit = languages._set_limit
    monkeypatch.setattr(languages, "_set_limit", lambda parser, _: set_limit(parser, 0.005))
    graph = analyze(
        [
            SourceFile("slow.py", lambda: slow),
            SourceFile("tail.py", lambda: b"def f():\n    pass\n\n\nf()\n"),
        ],
        {"call"},
        workers=1,
    )
    assert [(one.file, one.reason) for one in graph.stats.skipped] == [
        ("slow.py", "not parsed: it takes too long for its size")
    ]
    assert [(edge.source, edge.target) for edge in graph.edges] == [("tail", "tail.f")]


def test_limit_grows_with_the_file() -> None:
    assert parse_limit(1_000) < parse_limit(200_000) < parse_limit(8_000_000) == MAX_LIMIT_S
