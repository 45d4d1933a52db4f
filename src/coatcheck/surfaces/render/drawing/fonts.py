"""The font for measuring and drawing labels: Roboto, from the package `font-roboto`.

Measuring and drawing must use the same font, or labels would not fit their boxes. Only two tables
are read from the files: the glyph of each character (`cmap`) and the advance of each glyph
(`hmtx`). Kerning is ignored: it moves letters closer together, so a label measured without it fits.

A character that the font lacks (Chinese, Japanese, Korean, emoji and many others) is drawn with a
system font that has it, or else as an empty box that shows the gap. It is measured with a typical
width.
"""

from __future__ import annotations

import importlib.util
import struct
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from coatcheck.surfaces.render.drawing.errors import EngineMissing

FAMILY = "Roboto"
PACKAGE = "font-roboto"


@dataclass(frozen=True)
class FontFace:
    """One file of the family, with the width of each character relative to the font size."""

    path: Path
    widths: dict[str, float]

    def width(self, text: str) -> float:
        """Return the width of a line of text at font size 1."""
        widths = self.widths
        return sum(
            found if (found := widths.get(character)) is not None else _typical_width(character)
            for character in text
        )


def _typical_width(character: str) -> float:
    """Return the approximate width of a character that the font lacks."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Cc"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return 0.6


def font_files() -> tuple[Path, ...]:
    """Return the font files; raise EngineMissing if the package is not installed."""
    folder = _folder()
    return tuple(
        folder / f"{FAMILY}-{style}.ttf" for style in ("Regular", "Bold", "Italic", "BoldItalic")
    )


@lru_cache(maxsize=4)
def face(*, bold: bool, italic: bool) -> FontFace:
    """Return one face of the family, read once."""
    style = ("Bold" if bold else "") + ("Italic" if italic else "") or "Regular"
    path = _folder() / f"{FAMILY}-{style}.ttf"
    return FontFace(path, _widths(path.read_bytes()))


def covers(text: str) -> bool:
    """Report whether the font has every printable character of a text."""
    known = face(bold=False, italic=False).widths
    return all(character in known for character in set(text) if character.isprintable())


def _folder() -> Path:
    found = importlib.util.find_spec("font_roboto")
    if found is None or found.origin is None:
        raise EngineMissing(f"the fonts of {PACKAGE} are missing: pip install 'coatcheck[render]'")
    return Path(found.origin).parent / "files"


def _widths(data: bytes) -> dict[str, float]:
    tables = {
        tag: data[offset : offset + length]
        for tag, _, offset, length in struct.iter_unpack(
            ">4sLLL", data[12 : 12 + 16 * struct.unpack_from(">H", data, 4)[0]]
        )
    }
    (units,) = struct.unpack_from(">H", tables[b"head"], 18)
    (advance_count,) = struct.unpack_from(">H", tables[b"hhea"], 34)
    advances = [
        advance for advance, _ in struct.iter_unpack(">Hh", tables[b"hmtx"][: 4 * advance_count])
    ]
    # Glyphs without an advance of their own have the last one.
    return {
        chr(code): advances[min(glyph, advance_count - 1)] / units
        for code, glyph in _glyphs(tables[b"cmap"]).items()
    }


def _glyphs(cmap: bytes) -> dict[int, int]:
    """Parse the segments of a character map in format 4, which covers the basic plane."""
    (count,) = struct.unpack_from(">H", cmap, 2)
    for at in range(4, 4 + 8 * count, 8):
        (offset,) = struct.unpack_from(">L", cmap, at + 4)
        if struct.unpack_from(">H", cmap, offset) == (4,):
            break
    else:
        raise EngineMissing(f"the fonts of {PACKAGE} have an unexpected format")
    segments = struct.unpack_from(">H", cmap, offset + 6)[0] // 2
    at = offset + 14
    lasts = struct.unpack_from(f">{segments}H", cmap, at)
    at += 2 * segments + 2
    firsts = struct.unpack_from(f">{segments}H", cmap, at)
    at += 2 * segments
    shifts = struct.unpack_from(f">{segments}H", cmap, at)
    at += 2 * segments
    glyphs: dict[int, int] = {}
    for segment, first in enumerate(firsts):
        position = at + 2 * segment
        (jump,) = struct.unpack_from(">H", cmap, position)
        for code in range(first, min(lasts[segment], 0xFFFE) + 1):
            glyph = code
            if jump:
                (glyph,) = struct.unpack_from(">H", cmap, position + jump + 2 * (code - first))
            if glyph and (found := (glyph + shifts[segment]) & 0xFFFF):
                glyphs[code] = found
    return glyphs
