"""The font that labels are measured and drawn with: Roboto, from the package `font-roboto`.

Both have to be the same, or a label is wider than the box that was made for it. Only what measuring
needs is read from the files: which glyph a character has (`cmap`), and how far each one moves the
pen (`hmtx`). Kerning is left out: it moves letters closer together, so a label that is measured
without it has room.

A character that the font does not have (Chinese, Japanese, Korean, emoji and many others) is taken
from the fonts of the system where one of them has it, and else drawn as an empty box, so it is seen
that something is missing there. It is measured as wide as it is in fonts that have it.
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
    """One file of the family: how wide each of its characters is, in parts of the font size."""

    path: Path
    widths: dict[str, float]

    def width(self, text: str) -> float:
        """Return how wide a line of text is at font size 1."""
        widths = self.widths
        return sum(
            found if (found := widths.get(character)) is not None else _width_elsewhere(character)
            for character in text
        )


def _width_elsewhere(character: str) -> float:
    """Return how wide a character is in fonts that have it, roughly."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Cc"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return 0.6


def font_files() -> tuple[Path, ...]:
    """Return the files to draw with; raises EngineMissing where the package is not installed."""
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


def is_enough_for(text: str) -> bool:
    """Say whether the font has every character of a text that is seen."""
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
    (measured,) = struct.unpack_from(">H", tables[b"hhea"], 34)
    advances = [
        advance for advance, _ in struct.iter_unpack(">Hh", tables[b"hmtx"][: 4 * measured])
    ]
    # Glyphs beyond those that are measured are as wide as the last one that is.
    return {
        chr(code): advances[min(glyph, measured - 1)] / units
        for code, glyph in _glyphs(tables[b"cmap"]).items()
    }


def _glyphs(cmap: bytes) -> dict[int, int]:
    """Read the segments of a character map's format 4, the one for all of the basic plane."""
    (count,) = struct.unpack_from(">H", cmap, 2)
    for at in range(4, 4 + 8 * count, 8):
        (offset,) = struct.unpack_from(">L", cmap, at + 4)
        if struct.unpack_from(">H", cmap, offset) == (4,):
            break
    else:
        raise EngineMissing(f"the fonts of {PACKAGE} are not as expected")
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
        place = at + 2 * segment
        (jump,) = struct.unpack_from(">H", cmap, place)
        for code in range(first, min(lasts[segment], 0xFFFE) + 1):
            glyph = code
            if jump:
                (glyph,) = struct.unpack_from(">H", cmap, place + jump + 2 * (code - first))
            if glyph and (found := (glyph + shifts[segment]) & 0xFFFF):
                glyphs[code] = found
    return glyphs
