"""Every kind of diagram is drawn with all of its labels, in both outputs."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from coatcheck.surfaces.render.drawing import Format, Output, Picture, draw, raster
from coatcheck.surfaces.render.drawing.fonts import face
from tests.surfaces.render.drawing import sources
from tests.surfaces.render.drawing.picture_analysis import SVG, decode, difference, ink, texts

MERMAID = sorted(name for name in sources.LABELS if name.endswith(".mmd"))
# Kinds whose labels have a box each.
BOXED = ("block", "class", "er", "flowchart", "kanban", "mindmap", "requirement", "state")


def test_every_source_file_is_tested() -> None:
    assert {path.name for path in sources.FOLDER.iterdir()} == set(sources.LABELS)


@pytest.mark.parametrize("name", sorted(set(sources.LABELS) - set(MERMAID)))
def test_every_label_of_d2_is_in_the_svg(name: str) -> None:  # R11
    assert_all_labels(name, draw(sources.read(name), Format.D2, Output.SVG))


@pytest.mark.parametrize("name", MERMAID)
def test_every_label_is_in_the_svg(name: str, engine: str) -> None:  # R11
    drawn = draw(sources.read(name), Format.MERMAID, Output.SVG, engine=engine)
    assert_all_labels(name, drawn)


def assert_all_labels(name: str, drawn: Picture) -> None:
    written = texts(drawn.content)
    for label in sources.LABELS[name]:
        assert any(label == text or label in text for text in written), label
    assert b"foreignObject" not in drawn.content


@pytest.mark.parametrize("name", BOXED)
def test_labels_fit_their_boxes(name: str) -> None:
    # A label wider than its box overlaps its neighbors.
    drawn = draw(sources.read(f"{name}.mmd"), Format.MERMAID, Output.SVG)
    root = ElementTree.fromstring(drawn.content)
    boxes = [box for box in root.iter(f"{SVG}svg") if box is not root]
    assert len(boxes) >= len(sources.LABELS[f"{name}.mmd"])
    for box in boxes:
        assert "hidden" not in box.attrib["style"]
        for text in box.findall(f"{SVG}text"):
            style = dict(part.split(":", 1) for part in text.attrib["style"].split(";"))
            size = float(style["font-size"].removesuffix("px"))
            font = face(bold=style["font-weight"].startswith("bold"), italic=False)
            for line in (text, *text.findall(f"{SVG}tspan")):
                assert font.width(line.text or "") * size <= float(box.attrib["width"]) + 0.5


@pytest.mark.parametrize("name", MERMAID)
def test_labels_are_complete_on_the_png(  # R11
    name: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sources.read(name)
    drawn = draw(source, Format.MERMAID, Output.PNG, engine=engine).content
    monkeypatch.setattr(raster, "font_files", tuple)
    without_font = draw(source, Format.MERMAID, Output.PNG, engine=engine).content
    # The font only draws labels: there are some, and none is clipped at an edge.
    labels = difference(drawn, without_font)
    assert labels is not None
    assert ink(drawn, without_font) > 40 * len("".join(sources.LABELS[name]))
    width, height = decode(drawn).size
    assert labels[0] > 2 and labels[1] > 2
    assert labels[2] < width - 2 and labels[3] < height - 2


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("flowchart LR\n A[customerNumber and more]", "customerNumber and more"),
        ("flowchart LR\n A[ÄÖÜ straße ñ]", "ÄÖÜ straße ñ"),
        ("erDiagram\n LONGEST_NAME_OF_THEM_ALL", "LONGEST_NAME_OF_THEM_ALL"),
        ("flowchart LR\n A[привет мир]", "привет мир"),
    ],
)
def test_label_has_the_width_of_its_letters(
    source: str, label: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "---\nconfig:\n  flowchart:\n    wrappingWidth: 400\n---\n" + source
    drawn = draw(source, Format.MERMAID, Output.PNG, engine=engine).content
    monkeypatch.setattr(raster, "font_files", tuple)
    box = difference(drawn, draw(source, Format.MERMAID, Output.PNG, engine=engine).content)
    assert box is not None
    expected = face(bold=False, italic=False).width(label) * 16 * raster.SCALE
    # Kerning and side bearings take a little off; a clipped label lacks letters.
    assert expected - 8 * raster.SCALE < box[2] - box[0] < expected + 2


@pytest.mark.parametrize("text", ["日本語", "한국어", "🎉", "👩‍👩‍👧", "العربية"])
@pytest.mark.parametrize("language", Format)
def test_characters_without_a_font_are_visible(text: str, language: Format) -> None:
    # With a system font, or as boxes, but never as nothing.
    def picture(label: str) -> bytes:
        source = f'flowchart LR\n A["{label}"]' if language is Format.MERMAID else f'"{label}"'
        return draw(source, language, Output.PNG).content

    drawn = decode(picture(text)).convert("L")
    width, height = drawn.size
    middle = drawn.crop((width // 3, height // 3, 2 * width // 3, 2 * height // 3))
    assert sum(middle.histogram()[:160]) > 30


@pytest.mark.parametrize("label", ["customerNumber", "ÄÖÜ straße ñ", "çå łő žş"])
def test_latin_labels_of_d2_are_complete_on_the_png(label: str) -> None:  # R11
    def picture(color: str) -> bytes:
        paper = 'fill: "#ffffff"; stroke: "#ffffff"'
        source = f'a: "{label}" {{style: {{font-color: "{color}"; {paper}}}}}'
        return draw(source, Format.D2, Output.PNG).content

    drawn, blank = picture("#000000"), picture("#ffffff")
    box = difference(drawn, blank)
    assert box is not None
    assert ink(drawn, blank) > 40 * len(label.replace(" ", ""))
    width, height = decode(drawn).size
    assert box[0] > 2 and box[1] > 2
    assert box[2] < width - 2 and box[3] < height - 2


def test_source_can_choose_its_theme(engine: str) -> None:
    source = "flowchart LR\n A --> B"
    plain = draw(source, Format.MERMAID, Output.SVG, engine=engine).content
    themed = f"---\nconfig:\n  theme: dark\n---\n{source}"
    dark = draw(themed, Format.MERMAID, Output.SVG, engine=engine).content
    assert b"#ECECFF" in plain.upper()
    assert b"#ECECFF" not in dark.upper()
