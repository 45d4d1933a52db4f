"""Widths come from the font's own tables."""

from __future__ import annotations

import pytest
from PIL import ImageFont

from coatcheck.surfaces.render.drawing.fonts import covers, face, font_files


@pytest.mark.parametrize(
    "text", ["customerNumber", "Hello, world!", "ÄÖÜ straße", "привет", "€ 42"]
)
@pytest.mark.parametrize(
    ("bold", "italic", "file"),
    [(False, False, 0), (True, False, 1), (False, True, 2), (True, True, 3)],
)
def test_widths_match_the_font(text: str, bold: bool, italic: bool, file: int) -> None:
    font = ImageFont.truetype(font_files()[file], 1000, layout_engine=ImageFont.Layout.BASIC)
    assert face(bold=bold, italic=italic).width(text) * 1000 == pytest.approx(
        font.getlength(text), abs=len(text)
    )


@pytest.mark.parametrize(
    ("text", "width"), [("語", 1.0), ("🎉", 1.0), ("\u0301", 0.0), ("\u200d", 0.0), ("→", 0.6)]
)
def test_missing_characters_have_a_typical_width(text: str, width: float) -> None:
    assert not covers(f"a{text}") or width == 0.0
    assert face(bold=False, italic=False).width(text) == width


def test_latin_needs_no_other_font() -> None:
    assert covers("".join(map(chr, range(32, 127))) + "äöüßéèñçåøłőžş\n\t")
