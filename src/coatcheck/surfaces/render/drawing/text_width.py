"""Measure labels for the layout of Mermaid diagrams, in the font they are drawn with.

The library requests extents in many ways, modelled on browser APIs. Widths come from the font.
Heights are the library's own, which fit every font of that size; returning None leaves a request to
the library. If HTML wraps a label, we wrap as browsers do: at spaces, and a word wider than a line
widens the label.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

from merman import (
    MermanTextMeasurementOperation,
    MermanTextMeasurementResultKind,
    MermanTextMeasurer,
    MermanTextMeasureRequest,
    MermanTextMeasureResult,
    MermanTextWhiteSpace,
)

from coatcheck.surfaces.render.drawing.fonts import face

_Kind = MermanTextMeasurementResultKind
_Operation = MermanTextMeasurementOperation

_LENGTHS = frozenset(
    {
        _Operation.COMPUTED_LENGTH,
        _Operation.SIMPLE_B_BOX_WIDTH,
        _Operation.RAW_B_BOX_WIDTH,
        _Operation.TSPAN_B_BOX_WIDTH,
        _Operation.WRAP_PROBE_B_BOX_WIDTH,
        _Operation.BOUNDING_CLIENT_RECT_WIDTH,
        _Operation.CANVAS_MEASURE_TEXT_WIDTH,
    }
)
_EXTENTS = frozenset(
    {_Operation.B_BOX_X, _Operation.B_BOX_X_WITH_ASCII_OVERHANG, _Operation.TITLE_B_BOX_X}
)
_UNWRAPPED = frozenset({_Operation.MEASURE, _Operation.MERMAID_CALCULATE_TEXT_DIMENSIONS})
_WRAPPED = frozenset({_Operation.WRAPPED, _Operation.WRAPPED_WITH_RAW_WIDTH})

_BOLD = frozenset({"bold", "bolder", "600", "700", "800", "900"})
_WORD = re.compile(r"\S+\s*|\s+")


# Words and short labels repeat.
_MAX_CACHED_LENGTH = 100


@lru_cache(maxsize=4096)
def _cached_width(text: str, bold: bool, italic: bool) -> float:
    return face(bold=bold, italic=italic).width(text)


class FontMeasurer(MermanTextMeasurer):  # type: ignore[misc]  # untyped library
    """Measures labels for the layout."""

    def measure(self, request: MermanTextMeasureRequest) -> MermanTextMeasureResult | None:
        """Measure one label, or return None to leave it to the library."""
        operation = request.operation
        text = request.text
        if operation is _Operation.MERMAID_CALCULATE_TEXT_DIMENSIONS:
            text = html.unescape(text)
        lines = text.split("\n")
        widest = max(_line(request, line) for line in lines)
        if operation in _LENGTHS:
            return _result(_Kind.LENGTH, length=widest)
        if operation in _EXTENTS:  # of a centered label
            return _result(_Kind.HORIZONTAL_EXTENTS, bbox_left=widest / 2, bbox_right=widest / 2)
        if operation in _UNWRAPPED:
            return _metrics(_Kind.METRICS, request, widest, len(lines))
        if operation in _WRAPPED:
            width, count = _wrapped(request, lines, widest)
            if operation is _Operation.WRAPPED:
                return _metrics(_Kind.METRICS, request, width, count)
            return _metrics(_Kind.WRAPPED_WITH_RAW_WIDTH, request, width, count, widest)
        return None


def _line(request: MermanTextMeasureRequest, text: str) -> float:
    bold, italic = request.font_weight in _BOLD, request.font_style == "italic"
    if len(text) <= _MAX_CACHED_LENGTH:
        width = _cached_width(text, bold, italic)
    else:
        width = face(bold=bold, italic=italic).width(text)
    return float(
        width * request.font_size
        + request.letter_spacing * len(text)
        + request.word_spacing * text.count(" ")
    )


def _wrapped(
    request: MermanTextMeasureRequest, lines: list[str], widest: float
) -> tuple[float, int]:
    """Return the width and the number of lines of a wrapped label."""
    limit = request.max_width
    if limit is None or request.white_space is MermanTextWhiteSpace.NOWRAP or widest <= limit:
        return widest, len(lines)
    width, count = float(limit), 0
    for line in lines:
        count += 1
        filled = 0.0
        for word in _WORD.findall(line):
            bare = _line(request, word.rstrip())
            width = max(width, bare)
            if filled and filled + bare > limit:
                count += 1
                filled = 0.0
            filled += _line(request, word)
    return width, count


def _metrics(
    kind: MermanTextMeasurementResultKind,
    request: MermanTextMeasureRequest,
    width: float,
    lines: int,
    raw_width: float | None = None,
) -> MermanTextMeasureResult:
    return _result(
        kind,
        width=width,
        height=lines * request.line_height,
        line_count=lines,
        raw_width=raw_width,
    )


def _result(
    kind: MermanTextMeasurementResultKind,
    *,
    width: float = 0.0,
    height: float = 0.0,
    length: float = 0.0,
    line_count: int = 1,
    bbox_left: float | None = None,
    bbox_right: float | None = None,
    raw_width: float | None = None,
) -> MermanTextMeasureResult:
    return MermanTextMeasureResult(
        result_kind=kind,
        width=width,
        height=height,
        length=length,
        line_count=line_count,
        bbox_left=bbox_left,
        bbox_right=bbox_right,
        raw_width=raw_width,
    )
