"""Convert a sanitized SVG to a PNG, with the fonts of the package."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing
from coatcheck.surfaces.render.drawing.fonts import FAMILY, covers, font_files

# Larger than on screen, so small labels are sharp. The time for a PNG grows with its pixels, so the
# scale is not 2; large diagrams get a smaller one.
SCALE = 1.5
_MIN_SCALE = 0.25
_MAX_PIXELS = 24_000_000
_MAX_SIDE = 16_000

_VIEW_BOX = re.compile(r'<svg\b[^>]*?\sviewBox="([^"]*)"')


def to_png(svg: str, fonts: Sequence[Path] = ()) -> bytes:
    """Draw a sanitized SVG on a white background; raise DrawingError if it is too large.

    `fonts` are further font files that the SVG uses. The library reads files that an SVG refers to,
    so the SVG must be sanitized.
    """
    try:
        # Optional: only PNGs need it.
        import resvg_py  # noqa: PLC0415
    except ImportError as error:
        raise EngineMissing("PNG needs a library: pip install 'coatcheck[render]'") from error
    width, height = _size(svg)
    scale = min(
        SCALE,
        math.sqrt(_MAX_PIXELS / (width * height)),
        _MAX_SIDE / max(width, height),
    )
    if scale < _MIN_SCALE:
        raise DrawingError(
            f"the diagram is too large for a PNG ({width:.0f} x {height:.0f}); ask for an SVG"
        )
    try:
        return resvg_py.svg_to_bytes(
            svg_string=svg,
            background="white",
            width=max(1, round(width * scale)),
            height=max(1, round(height * scale)),
            skip_system_fonts=covers(svg),
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
        raise DrawingError("the diagram has no size: it contains nothing to draw")
    return width, height
