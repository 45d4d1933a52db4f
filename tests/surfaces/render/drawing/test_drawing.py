"""Drawing: source in, picture out. Read this first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from coatcheck.surfaces.render.drawing import (
    DrawingError,
    EngineMissing,
    Format,
    Output,
    draw,
    engine_names,
    engines_in_force,
)
from tests.surfaces.render.drawing.picture_analysis import decode, texts


def test_flowchart_becomes_an_svg(engine: str) -> None:
    source = "flowchart LR\n  A[Hand in] --> B[Come back]"
    picture = draw(source, Format.MERMAID, Output.SVG, engine=engine)
    assert picture.content_type == "image/svg+xml"
    assert {"Hand in", "Come back"} <= set(texts(picture.content))


def test_d2_diagram_becomes_a_png() -> None:  # R11
    picture = draw("hand in -> come back", Format.D2, Output.PNG)
    assert picture.content_type == "image/png"
    assert decode(picture.content).getpixel((0, 0)) == (255, 255, 255)


def test_error_has_its_position() -> None:
    with pytest.raises(DrawingError) as caught:
        draw("flowchart LR\n  A --> B\n  B --> C{where", Format.MERMAID, Output.SVG)
    assert str(caught.value) == (
        "line 3, column 10: Unterminated node label (missing `}`)\n    B --> C{where\n           ^"
    )


@pytest.mark.parametrize("output", Output)
@pytest.mark.parametrize(
    "source",
    [
        "mindmap\n  root\n    a\n    b\n      c",
        "gantt\n dateFormat YYYY-MM-DD\n a task: 2026-01-01, 3d",
        "%%{init: {'look': 'handDrawn'}}%%\nflowchart LR\n A --> B",
        "architecture-beta\n service a(server)[A]\n service b(disk)[B]\n a:R--L:b",
    ],
)
def test_the_same_source_gives_the_same_bytes(source: str, output: Output, engine: str) -> None:
    first = draw(source, Format.MERMAID, output, engine=engine)
    draw("flowchart LR\n C --> D", Format.MERMAID, output, engine=engine)
    assert first == draw(source, Format.MERMAID, output, engine=engine)


@pytest.mark.parametrize("output", Output)
def test_the_same_source_of_d2_gives_the_same_bytes(output: Output) -> None:
    source = "vars: {d2-config: {sketch: true}}\na -> b: hello"
    assert draw(source, Format.D2, output) == draw(source, Format.D2, output)


def test_threads_draw_at_the_same_time(engine: str) -> None:
    source = "flowchart LR\n" + "\n".join(f" A{n} --> B{n}[number {n}]" for n in range(20))
    alone = draw(source, Format.MERMAID, Output.SVG, engine=engine)
    with ThreadPoolExecutor(4) as threads:
        drawn = threads.map(
            lambda _: draw(source, Format.MERMAID, Output.SVG, engine=engine), range(12)
        )
        assert all(picture == alone for picture in drawn)


def test_engines_are_chosen_by_name() -> None:
    assert engine_names(Format.MERMAID) == ("merman", "chromium")
    source = "flowchart LR\n A --> B"
    chosen = draw(source, Format.MERMAID, Output.SVG, engine="merman")
    assert chosen == draw(source, Format.MERMAID, Output.SVG)
    with pytest.raises(
        EngineMissing, match="no engine 'd2' draws mermaid; known are merman, chromium"
    ):
        draw(source, Format.MERMAID, Output.SVG, engine="d2")


def test_active_engines_are_reported() -> None:
    found = {state.engine: state for state in engines_in_force()}
    assert set(found) == {"merman", "chromium", "d2"}
    assert {state.format for state in found.values()} == set(Format)
    for name in ("merman", "d2"):
        assert found[name].ready
        assert found[name].version
    assert found["d2"].note  # the sandbox it runs in


@pytest.mark.parametrize("output", Output)
def test_source_size_is_limited(output: Output) -> None:
    fits = "flowchart LR\n A --> B\n%%" + "x" * (256 * 1024 - 24)
    draw(fits, Format.MERMAID, output)
    for too_long in (fits + "xx", "flowchart LR\n A[" + "語" * 90_000 + "]"):
        with pytest.raises(DrawingError, match="bytes; the limit is 262144"):
            draw(too_long, Format.MERMAID, output)


@pytest.mark.parametrize("language", Format)
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "there is nothing to draw"),
        (" \n\t\n", "there is nothing to draw"),
        ("a\n b\0c", "line 2, column 3: a NUL is not allowed"),
        ("a\n\ud800", "line 2, column 1: this is not a Unicode character"),
    ],
)
def test_invalid_text_is_rejected(language: Format, source: str, says: str) -> None:
    with pytest.raises(DrawingError, match=says):
        draw(source, language, Output.SVG)
