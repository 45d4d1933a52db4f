"""The Chromium engine only: formulas, formatted labels and error positions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coatcheck.sandbox import DetectedSandbox, SandboxBackend
from coatcheck.surfaces.render.drawing import DrawingError, EngineMissing, Format, Output, draw
from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine, engine
from tests.surfaces.render.drawing import sources
from tests.surfaces.render.drawing.conftest import IN_A_BROWSER
from tests.surfaces.render.drawing.picture_analysis import decode, ink, texts

pytestmark = [*IN_A_BROWSER, pytest.mark.usefixtures("chromium")]

FORMULA = 'flowchart LR\n A["$$x = \\frac{-b \\pm \\sqrt{b^2-4ac}}{2a}$$"]'

# source, line, column, part of the reason
MISTAKES = [
    ("flowchart TD\n  A[Start] --> B{x\n  B --> C", 2, 18, "the end is not allowed here"),
    ("flowchart TD\r\n  A[Stärt] --> B{x\r\n", 2, 18, "the end is not allowed here"),
    ("flowchart TD\n  A[🎉🎉] --> ] B", 2, 13, "Unrecognized text"),
    ("flowchart TD\n  A[🎉🎉] --> B{x", 2, 15, "the end is not allowed here"),
    ("sequenceDiagram\n  A->>B: hi\n  A->B\n", 3, 7, "got 'NEWLINE'"),
    ("erDiagram\n A ||--|| : x", 2, 10, "'COLON' is not allowed here"),
    ("gitGraph\n commit\n checkout nowhere", 3, 2, "not yet created"),
    ("xychart-beta\n bar [1,2,", 2, 11, "got 'NEWLINE'"),
    ('pie\n "a" : 1\n "b" x', 3, 6, "unexpected character"),
    ("architecture-beta\n foo bar baz", 2, 6, "but found `bar`"),
    ("gantt\n dateFormat YYYY-MM-DD\n section A\n  b :z, not-a-date, 3d", 4, 9, "Invalid date"),
    ("---\nconfig: [\n---\nflowchart TD\nA-->B", 3, 1, "unexpected end of the stream"),
    ("hello world", 1, 1, "this is not a Mermaid diagram"),
    # Positions count the parts that Mermaid skips.
    ("---\ntitle: x\n---\nflowchart TD\n  A --> B{x\n", 5, 11, "the end is not allowed here"),
    (
        "%% a comment\n%%{init: {'theme': 'dark'}}%%\n\nflowchart TD\n %% another\n  A --> B{x\n",
        6,
        11,
        "the end is not allowed here",
    ),
]


def draw_bytes(source: str, output: Output = Output.SVG) -> bytes:
    return draw(source, Format.MERMAID, output, engine="chromium").content


def test_formulas_are_drawn() -> None:
    svg = draw_bytes(FORMULA).decode()
    # Letters in embedded fonts, the fraction bar, and the root.
    assert set(re.findall(r"@font-face\{font-family:(\w+)", svg)) == {"KaTeX_Main", "KaTeX_Math"}
    assert "url(data:font/ttf;base64," in svg
    assert 'viewBox="0 0 400000' in svg
    assert {"x", "=", "±", "4", "a", "c"} <= set(texts(svg.encode()))
    assert "foreignObject" not in svg


def test_formulas_are_on_the_png() -> None:
    root, blank = (
        draw_bytes(f'flowchart LR\n A["$${formula}$$"]', Output.PNG)
        for formula in (r"\sqrt{xxxxxxxx}", r"\phantom{\sqrt{xxxxxxxx}}")
    )
    assert decode(root).size == decode(blank).size
    assert ink(root, blank) > 300


def test_fraction_has_its_bar() -> None:
    # The same height, with and without the bar.
    with_line, without = (
        draw_bytes(f"sequenceDiagram\n A->>B: $$\\{name}{{1}}{{2}}$$", Output.PNG)
        for name in ("frac", "genfrac{}{}{0pt}{}")
    )
    assert decode(with_line).size == decode(without).size
    assert ink(with_line, without) > 5


def test_labels_keep_bold_text_and_line_breaks() -> None:
    source = 'flowchart LR\n A["`**bold** and *italic*`"] --> B[one<br/>two]'
    svg = draw_bytes(source).decode()
    styles = {
        words: style for style, words in re.findall(r'<tspan[^>]*style="([^"]*)">([^<]*)<', svg)
    }
    assert "font-weight:700" in styles["bold"]
    assert "font-style:italic" in styles["italic"]
    assert "font-weight:400" in styles["and"]
    heights = {words: y for y, words in re.findall(r'<tspan[^>]*\by="([^"]*)"[^>]*>([^<]*)<', svg)}
    assert float(heights["two"]) > float(heights["one"])


def test_png_does_not_depend_on_the_style_sheet() -> None:
    # An aggregation is hollow, a composition filled: only the style sheet makes the difference.
    hollow, filled = (
        draw_bytes(f"classDiagram\n direction LR\n Bank {end}-- Account", Output.PNG)
        for end in "o*"
    )
    assert decode(hollow).size == decode(filled).size
    assert ink(hollow, filled) > 100


@pytest.mark.parametrize(("source", "line", "column", "reason"), MISTAKES)
def test_error_has_its_position(source: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(DrawingError) as caught:
        draw_bytes(source)
    error = caught.value
    assert (error.line, error.column) == (line, column), str(error)
    assert reason in error.reason
    assert error.excerpt == source.split("\n")[line - 1].rstrip()


def test_error_without_a_position() -> None:
    with pytest.raises(DrawingError, match="is not contiguous") as caught:
        draw_bytes('packet-beta\n0-7: "a"\n9-12: "b"')
    assert caught.value.line is None


def test_source_does_not_affect_the_next() -> None:
    plain = sources.read("flowchart.mmd")
    before = draw_bytes(plain)
    draw_bytes(f'%%{{init: {{"theme": "dark", "securityLevel": "loose"}}}}%%\n{plain}')
    with pytest.raises(DrawingError):
        draw_bytes("flowchart LR\n A --> B{x")
    assert draw_bytes(plain) == before


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("_program", lambda: "", "Chromium .*chromium-headless-shell"),
        ("MERMAID", Path("/nowhere"), "Mermaid from npm"),
        (
            "detect_sandbox",
            lambda: DetectedSandbox(SandboxBackend.RLIMITS, "limits only"),
            "a sandbox",
        ),
    ],
)
def test_missing_requirement_is_reported(
    name: str, value: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(engine.PROGRAM, raising=False)
    monkeypatch.setattr(engine, name, value)
    tried = ChromiumEngine()
    [state] = tried.in_force()
    assert not state.ready
    assert re.match(says, state.missing)
    with pytest.raises(EngineMissing, match=f"Mermaid in Chromium needs {says}"):
        tried.draw("flowchart LR\n A --> B", Format.MERMAID, Output.SVG)


def test_program_that_is_not_a_browser_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.PROGRAM, "/bin/false")
    with pytest.raises(EngineMissing, match="Chromium could not be started"):
        ChromiumEngine().draw("flowchart LR\n A --> B", Format.MERMAID, Output.SVG)
    monkeypatch.setenv(engine.PROGRAM, "/nowhere/chromium")
    [state] = ChromiumEngine().in_force()
    assert state.missing == f"a program at /nowhere/chromium, which {engine.PROGRAM} names"


def test_sandbox_is_reported(chromium: ChromiumEngine) -> None:
    [state] = chromium.in_force()
    assert state.ready
    assert re.fullmatch(r"with Mermaid 11\.\d+\.\d+", state.version or "")
    assert "its own sandbox off, in ours: " in state.note
