"""The built-in engines, and the entry point to all of them."""

from __future__ import annotations

from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine
from coatcheck.surfaces.render.drawing.d2 import D2Engine
from coatcheck.surfaces.render.drawing.errors import (
    DrawingError,
    EngineMissing,
    error_at_offset,
)
from coatcheck.surfaces.render.drawing.mermaid import MermanEngine
from coatcheck.surfaces.render.drawing.picture import (
    LONGEST_SOURCE,
    DetectedEngine,
    DrawingEngine,
    Format,
    Output,
    Picture,
)

# The first engine of a format is its default.
BUILT_IN: tuple[DrawingEngine, ...] = (MermanEngine(), ChromiumEngine(), D2Engine())


def draw(
    source: str,
    format: Format,  # noqa: A002
    output: Output,
    *,
    engine: str | None = None,
) -> Picture:
    """Draw a diagram; raise DrawingError, or EngineMissing if no engine can draw it here."""
    _check_source(source)
    return _engine_for(format, engine).draw(source, format, output)


def engine_names(format: Format) -> tuple[str, ...]:  # noqa: A002
    """Return the names of the engines for a format, the default first."""
    return tuple(engine.name for engine in BUILT_IN if format in engine.formats)


def engines_in_force() -> tuple[DetectedEngine, ...]:
    """Report for every format and engine whether it can draw here, and what is missing."""
    return tuple(found for engine in BUILT_IN for found in engine.in_force())


def _engine_for(format: Format, name: str | None) -> DrawingEngine:  # noqa: A002
    candidates = [engine for engine in BUILT_IN if format in engine.formats]
    for engine in candidates:
        if name in (None, engine.name):
            return engine
    known = ", ".join(engine.name for engine in candidates)
    raise EngineMissing(f"no engine {name!r} draws {format}; known are {known}")


def _check_source(source: str) -> None:
    """Reject a source that no engine should see."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise error_at_offset(source, error.start, "this is not a Unicode character") from None
    if size > LONGEST_SOURCE:
        raise DrawingError(
            f"the source has {size} bytes; the limit is {LONGEST_SOURCE}", None, None
        )
    if "\0" in source:
        raise error_at_offset(source, source.index("\0"), "a NUL is not allowed")
    if not source.strip():
        raise DrawingError("there is nothing to draw: the source is empty")
