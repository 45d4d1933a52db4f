"""Errors in a source are reported with line, column and an excerpt."""

from __future__ import annotations

import pytest

from coatcheck.surfaces.render.drawing import DrawingError, Format, Output, draw

# format, source, line, column, part of the reason
MISTAKES = [
    (Format.MERMAID, "flowchart TD\n  A[Start] --> B{x\n  B --> C", 2, 17, "Unterminated"),
    (Format.MERMAID, "flowchart TD\r\n  A[Stärt] --> B{x\r\n", 2, 17, "Unterminated"),
    (Format.MERMAID, "flowchart TD\n  A[🎉🎉] --> ] B", 2, 13, "Unexpected character"),
    (Format.MERMAID, "sequenceDiagram\n  A->>B: hi\n  A->B\n", 3, 7, "expected text"),
    (Format.MERMAID, "classDiagram\n  class A {\n   +x\n", 4, 1, "inside class body"),
    (Format.MERMAID, "stateDiagram-v2\n A --> \n", 2, 8, "expected node identifier"),
    (Format.MERMAID, "erDiagram\n A ||--|| : x", 2, 11, "unexpected colon"),
    (Format.MERMAID, "gitGraph\n commit\n checkout nowhere", 3, 2, "not yet created"),
    (Format.MERMAID, "mindmap\n root\n  a((b", 3, 3, "unterminated"),
    (Format.MERMAID, "xychart-beta\n bar [1,2,", 2, 11, "unbalanced"),
    # The library reports no position for these, but the text that it names has one.
    (Format.MERMAID, 'pie\n "a" : 1\n "b" x', 3, 2, "unexpected pie statement"),
    (
        Format.MERMAID,
        "gantt\n dateFormat YYYY-MM-DD\n section A\n  b :zzz, not-a-date, 3d",
        4,
        11,
        "Invalid date",
    ),
    (Format.MERMAID, "---\nconfig: [\n---\nflowchart TD\nA-->B", 2, 9, "YAML"),
    (Format.MERMAID, "hello world", 1, 1, "o Mermaid diagram"),
    (Format.D2, "a -> b\nc -> \n", 2, 1, "connection missing destination"),
    (Format.D2, 'ä: "日本語 →"; b: "x', 1, 16, "must be terminated"),
    (Format.D2, "a: {\n  shape: nope\n}", 2, 10, 'unknown shape "nope"'),
]


@pytest.mark.parametrize(("language", "source", "line", "column", "reason"), MISTAKES)
def test_error_has_its_position(
    language: Format, source: str, line: int, column: int, reason: str
) -> None:
    for output in Output:
        with pytest.raises(DrawingError) as caught:
            draw(source, language, output)
        error = caught.value
        assert (error.line, error.column) == (line, column), str(error)
        assert reason in error.reason
        quoted = source.split("\n")[line - 1].rstrip()
        assert error.excerpt == quoted
        assert str(error) == (
            f"line {line}, column {column}: {error.reason}\n  {quoted}\n  {' ' * (column - 1)}^"
        )


def test_long_lines_are_shortened_in_the_excerpt() -> None:
    source = "flowchart LR\n" + "A" * 400 + " --> B{" + "x" * 400
    with pytest.raises(DrawingError) as caught:
        draw(source, Format.MERMAID, Output.SVG)
    message, shown, below = str(caught.value).split("\n")
    assert message.startswith("line 2, column 407: ")
    assert len(shown) <= 102
    assert shown[below.index("^")] == "{"


def test_error_without_a_position() -> None:
    with pytest.raises(DrawingError) as caught:
        draw('flowchart LR\n A["$$x^2$$"]', Format.MERMAID, Output.SVG)
    assert caught.value.line is None
    assert str(caught.value) == "this engine does not draw formulas ($$…$$)"
