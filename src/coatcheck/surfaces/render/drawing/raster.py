"""From an inert SVG to a PNG, with the fonts that come with the package."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing
from coatcheck.surfaces.render.drawing.fonts import FAMILY, font_files, is_enough_for

# Larger than on the screen, so that small labels are sharp. The time that a PNG takes grows with
# its pixels, so it is not twice as large; large diagrams get less.
SCALE = 1.5
_LEAST_SCALE = 0.25
_MOST_PIXELS = 24_000_000
_LONGEST_SIDE = 16_000

_VIEW_BOX = re.compile(r'<svg\b[^>]*?\sviewBox="([^"]*)"')


def to_png(svg: str, fonts: Sequence[Path] = ()) -> bytes:
    """Draw a sanitized SVG on a white background; raise DrawingError if it is too large.

    `fonts` are files of fonts that the SVG names, in addition to our own.
    The library would read files that an SVG names: nothing but what is inert may be handed in.
    """
    try:
        # An optional part: only who uses it needs it.
        import resvg_py  # noqa: PLC0415
    except ImportError as error:
        raise EngineMissing("PNG needs a library: pip install 'coatcheck[render]'") from error
    width, height = _size(svg)
    scale = min(
        SCALE,
        math.sqrt(_MOST_PIXELS / (width * height)),
        _LONGEST_SIDE / max(width, height),
    )
    if scale < _LEAST_SCALE:
        raise DrawingError(
            f"the diagram is too large for a PNG ({width:.0f} x {height:.0f}); ask for an SVG"
        )
    try:
        return resvg_py.svg_to_bytes(
            svg_string=svg,
            background="white",
            width=max(1, round(width * scale)),
            height=max(1, round(height * scale)),
            skip_system_fonts=is_enough_for(svg),
            font_files=[str(path) for path in (*font_files(), *fonts)],
            font_family=FAMILY,
            serif_family=FAMILY,
            sans_serif_family=FAMILY,
            cursive_family=FAMILY,
            fantasy_family=FAMILY,
            monospace_family=FAMILY,
        )
    except ValueError as error:
        raise DrawingError(f"the diagram could not be drawn as a PNG: {error}") from error


def _size(svg: str) -> tuple[float, float]:
    found = _VIEW_BOX.match(svg)
    try:
        _, _, width, height = (float(part) for part in (found[1] if found else "").split())
    except ValueError:
        width = height = 0.0
    if not (0 < width < math.inf and 0 < height < math.inf):
        raise DrawingError("the diagram has no size: there is nothing in it to draw")
    return width, height
